"""A manifest behind a testbed's file: the numbers are those of the same models on those examples alone."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from hardpan import testbed
from hardpan.confusion import subset_of_ids
from hardpan.errors import InputError
from hardpan.predictions import Predictions
from hardpan.testbed.sets import open_outcomes

MODELS, SIZES, CLASSES = ("a", "b", "c"), {"original": 200, "new": 120}, 4
IDS = {name: np.array([f"{name}-{n:03d}" for n in range(size)]) for name, size in SIZES.items()}
LABELS = {name: np.arange(size) % CLASSES for name, size in SIZES.items()}


def _said(name: str) -> np.ndarray:
    rng = np.random.default_rng(len(name))
    right = rng.random((3, SIZES[name])) < np.array([[0.9], [0.8], [0.65]])
    return np.where(right, LABELS[name], (LABELS[name] + 1 + rng.integers(0, 3, right.shape)) % CLASSES)


SAID = {name: _said(name) for name in SIZES}
RIGHT = {name: SAID[name] == LABELS[name] for name in SIZES}


def npz_right(folder: Path) -> Path:
    arrays = {f"correct_{n}": RIGHT[n] for n in SIZES} | {f"ids_{n}": IDS[n] for n in SIZES}
    np.savez(folder / "right.npz", models=np.array(MODELS), **arrays)
    return folder / "right.npz"


def csv_long(folder: Path) -> Path:
    with (folder / "long.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["model", "set", "id", "label", "prediction"])
        for name in SIZES:
            for m, model in enumerate(MODELS):
                rows.writerows(
                    [model, name, IDS[name][n], LABELS[name][n], SAID[name][m, n]] for n in range(SIZES[name])
                )
    return folder / "long.csv"


def csv_wide(folder: Path) -> Path:
    with (folder / "wide.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["set", "id", "label", *MODELS])
        for name in SIZES:
            rows.writerows(
                [name, IDS[name][n], LABELS[name][n], *SAID[name][:, n].tolist()] for n in range(SIZES[name])
            )
    return folder / "wide.csv"


FORMS = (npz_right, csv_long, csv_wide)


def manifest(path: Path, ids: list[str]) -> Path:
    subset_of_ids(ids, examples=320).save(path)
    return path


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_with_ids_takes_a_manifest(form, tmp_path: Path) -> None:
    hard = manifest(tmp_path / "hard.json", ["new-007", "original-150", "original-003", "new-001", "new-119"])
    found = testbed.two_sets(f"{form(tmp_path)}@{hard}")
    order = [found.models.index(model) for model in MODELS]
    np.testing.assert_array_equal(found.original.scores[order], RIGHT["original"][:, [3, 150]])
    np.testing.assert_array_equal(found.new.scores[order], RIGHT["new"][:, [1, 7, 119]])
    assert any("Only the 2 of 200 examples of the original set" in note for note in found.notes)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    some.sets(some.integers(0, SIZES["original"] - 1), min_size=1),
    some.sets(some.integers(0, SIZES["new"] - 1), min_size=1),
)
def test_counts_are_those_of_the_named_examples(tmp_path: Path, original: set[int], new: set[int]) -> None:
    file = npz_right(tmp_path)
    ids = [f"original-{n:03d}" for n in original] + [f"new-{n:03d}" for n in new]
    counts = testbed.two_sets(f"{file}@{manifest(tmp_path / 'hard.json', ids)}")
    assert counts.original.correct.tolist() == RIGHT["original"][:, sorted(original)].sum(axis=1).tolist()
    assert counts.new.correct.tolist() == RIGHT["new"][:, sorted(new)].sum(axis=1).tolist()
    assert (counts.original.total[0], counts.new.total[0]) == (len(original), len(new))


def test_of_two_files_each_has_its_own_manifest_or_none(tmp_path: Path) -> None:
    for name in SIZES:
        np.savez(tmp_path / f"{name}.npz", models=MODELS, correct=RIGHT[name], ids=IDS[name])
    hard = manifest(tmp_path / "hard.json", ["original-010", "original-020"])
    found = testbed.two_sets(f"{tmp_path}/original.npz@{hard}", tmp_path / "new.npz")
    np.testing.assert_array_equal(found.original.scores, RIGHT["original"][:, [10, 20]])
    np.testing.assert_array_equal(found.new.scores, RIGHT["new"])


def test_a_manifest_of_rows_fits_a_file_without_ids(tmp_path: Path) -> None:
    for name in SIZES:
        np.savez(tmp_path / f"{name}.npz", models=MODELS, correct=RIGHT[name])
    hard = manifest(tmp_path / "hard.json", ["row-0000004", "row-0000002"])
    found = testbed.two_sets(tmp_path / "original.npz", f"{tmp_path}/new.npz@{hard}")
    np.testing.assert_array_equal(found.new.scores, RIGHT["new"][:, [2, 4]])


def test_parts_of_a_store_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    split = np.array(["train"] * 50 + ["test"] * 30)
    labels = np.arange(80) % CLASSES
    made = Predictions.create(
        tmp_path / "run", ids=[f"image-{n}" for n in range(80)], n_classes=CLASSES, labels=labels, split=split
    )
    probs = np.full((80, CLASSES), 0.1)
    probs[np.arange(80), np.where(np.arange(80) % 5, labels, (labels + 1) % CLASSES)] = 0.7
    made.write(0, 0, probs)
    hard = manifest(tmp_path / "hard.json", ["image-5", "image-6", "image-55", "image-70", "image-71"])
    found = testbed.two_sets(f"{tmp_path}/run@{hard}", original_set="train", new_set="test", check_classes=False)
    assert found.original.scores.tolist() == [[0, 1]]
    assert found.new.scores.tolist() == [[0, 0, 1]]


def test_the_hardest_of_a_subset_keep_their_numbers_in_the_whole_set(tmp_path: Path) -> None:
    wanted = [5, 17, 90, 141]
    ids = [f"original-{n:03d}" for n in wanted] + ["new-011"]
    found = testbed.hardest_of(
        testbed.two_sets(f"{npz_right(tmp_path)}@{manifest(tmp_path / 'h.json', ids)}"), fraction=1.0
    )
    assert sorted(found.original.tolist()) == wanted
    assert found.new.tolist() == [11]


def test_what_a_manifest_cannot_choose_from_is_refused(tmp_path: Path) -> None:
    both = npz_right(tmp_path)
    one_side = manifest(tmp_path / "one.json", ["original-001"])
    with pytest.raises(InputError, match=one_side.name):
        testbed.two_sets(f"{both}@{one_side}")
    stranger = manifest(tmp_path / "stranger.json", ["original-001", "elsewhere"])
    with pytest.raises(InputError, match="elsewhere"):
        testbed.two_sets(f"{both}@{stranger}")
    np.savez(tmp_path / "bare.npz", models=MODELS, **{f"correct_{n}": RIGHT[n] for n in SIZES})
    with pytest.raises(InputError, match="ids"):
        testbed.two_sets(f"{tmp_path}/bare.npz@{one_side}")
    same = {f"correct_{n}": RIGHT[n][:, :9] for n in SIZES} | {f"ids_{n}": IDS["new"][:9] for n in SIZES}
    np.savez(tmp_path / "same.npz", models=MODELS, **same)
    with pytest.raises(InputError):
        testbed.two_sets(f"{tmp_path}/same.npz@{one_side}")
    (tmp_path / "counts.csv").write_text(
        "model,original_correct,original_total,new_correct,new_total\na,9,10,8,10\n"
    )
    with pytest.raises(InputError, match="counts"):
        testbed.two_sets(f"{tmp_path}/counts.csv@{one_side}")


def test_one_set_is_opened_by_name(tmp_path: Path) -> None:
    hard = manifest(tmp_path / "hard.json", ["new-002", "new-001"])
    with pytest.raises(InputError, match="200"):
        open_outcomes(Path(f"{csv_wide(tmp_path)}@{hard}"), "original")
    found = open_outcomes(Path(f"{tmp_path}/wide.csv@{hard}"), "new")
    assert found.items.tolist() == ["new-001", "new-002"]
    np.testing.assert_array_equal(found.scores, RIGHT["new"][:, [1, 2]])
    with pytest.raises(InputError, match="set"):
        open_outcomes(tmp_path / "wide.csv")
