"""Follow-up hypotheses: answers known by hand, by planting, or by another route."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import binomtest
from typer.testing import CliRunner

from hardpan import Outcomes
from hardpan.cli.testbed import app
from hardpan.errors import InputError
from hardpan.stats import cohen_kappa
from hardpan.testbed import followups
from hardpan.testbed.sets import open_outcomes

RIGHT = np.random.default_rng(0).random((4, 300)) < np.array([[0.9], [0.8], [0.7], [0.6]])
NAMES = ("a", "b", "c", "d")


def scores(right: np.ndarray, models: tuple[str, ...] | None = None) -> Outcomes:
    return Outcomes.from_arrays(right, models=models or NAMES[: len(right)])


# Near-duplicates


@given(st.floats(0.3, 0.95), st.floats(0, 0.3), st.floats(0.5, 1))
def test_true_accuracy_undoes_the_mixture(rest: float, share: float, known: float) -> None:
    whole = (1 - share) * rest + share * known
    assert followups.true_accuracy(whole, share, known) == pytest.approx(rest)


def test_paper_s_example() -> None:
    assert 0.93 - followups.true_accuracy(0.93, 0.08) == pytest.approx(0.006, abs=1e-3)


@pytest.mark.parametrize("arguments", [(0.05, 0.08), (0.9, 1.0), (0.9, 0.1, 1.5), (1.2, 0.0), (0.99, 0.5, 0.0)])
def test_impossible_mixtures_are_refused(arguments: tuple[float, ...]) -> None:
    with pytest.raises(InputError):
        followups.true_accuracy(*arguments)


def test_duplicates_are_taken_out_and_the_drop_is_split() -> None:
    marked = np.arange(300) < 24
    right = RIGHT | marked
    for row, found in zip(right, followups.without_duplicates(scores(right), marked, [0.5] * 4).rows, strict=True):
        assert found.on_duplicates.value == 1.0
        assert found.without.value == row[24:].mean()
        assert found.without.value == pytest.approx(followups.true_accuracy(row.mean(), 0.08))
        assert found.explained + found.left == pytest.approx(found.drop)
        exact = binomtest(int(row[24:].sum()), 276).proportion_ci(method="exact")
        assert (found.without.low, found.without.high) == pytest.approx((exact.low, exact.high))
    assert np.isnan(followups.without_duplicates(scores(right), marked).rows[0].drop)
    with pytest.raises(InputError, match="duplicate"):
        followups.without_duplicates(scores(right), np.ones(300))


# Classes, parts, bins


def test_balanced_accuracy_covers_the_truth() -> None:
    rng = np.random.default_rng(1)
    labels, chance = np.repeat([0, 1, 2], [500, 100, 20]), np.array([0.9, 0.6, 0.5])
    inside = 0
    for _ in range(300):
        right = rng.random((1, 620)) < chance[labels]
        found = followups.class_balanced(scores(right), labels).rows[0].balanced
        inside += found.low <= chance.mean() <= found.high
    assert inside >= 273  # 95 % of 300, less four standard errors


def test_balanced_equals_plain_where_classes_are_balanced() -> None:
    for found in followups.class_balanced(scores(RIGHT), np.arange(300) % 10).rows:
        assert found.balanced.value == pytest.approx(found.accuracy.value)


def test_parts_add_up() -> None:
    parts = np.array(["x", "y", "z"])[np.arange(300) % 3]
    found = followups.by_label(scores(RIGHT), parts).rows
    for model, row in zip(NAMES, RIGHT, strict=True):
        own = [item.accuracy for item in found if item.model == model]
        assert sum(item.n for item in own) == 300
        assert sum(item.value * item.n for item in own) == pytest.approx(row.sum())


def test_frequency_bins_find_a_planted_slope() -> None:
    rng = np.random.default_rng(2)
    frequency = rng.integers(0, 11, 6000) / 10
    right = rng.random((1, 6000)) < 0.3 + 0.6 * frequency
    found = followups.by_frequency(scores(right), frequency).rows
    assert [item.group for item in found] == ["[0, 0.2)", "[0.2, 0.4)", "[0.4, 0.6)", "[0.6, 0.8)", "[0.8, 1]"]
    assert [item.accuracy.n for item in found] == [
        int(((frequency * 10).round() // 2 == i).sum()) + (int((frequency == 1).sum()) if i == 4 else 0)
        for i in range(5)
    ]
    for item, middle in zip(found, (0.05, 0.25, 0.45, 0.65, 0.9), strict=True):
        assert item.accuracy.value == pytest.approx(0.3 + 0.6 * middle, abs=0.05)
    with pytest.raises(InputError, match="frequency"):
        followups.by_frequency(scores(right), frequency * 10)


def test_attribute_bins_hold_equal_shares_and_survive_ties() -> None:
    values = np.random.default_rng(0).permutation(300).astype(float)
    assert {item.accuracy.n for item in followups.by_attribute(scores(RIGHT), values, bins=5).rows} == {60}
    assert len(followups.by_attribute(scores(RIGHT), np.zeros(300)).rows) == 4


def test_image_attributes_by_hand() -> None:
    red = np.zeros((2, 2, 3), np.uint8)
    red[..., 0] = 255
    half = np.zeros((4, 4), np.float64)
    half[:2] = 1
    found = followups.image_attributes([red, half])
    assert found["brightness"].tolist() == pytest.approx([0.299, 0.5])
    assert found["contrast"].tolist() == pytest.approx([0, 0.5])
    assert found["grey"].tolist() == pytest.approx([0, 1])
    assert found["size"].tolist() == [4, 16]
    for bad in ([np.zeros(3)], [np.full((2, 2), 7.0)], []):
        with pytest.raises(InputError, match="images"):
            followups.image_attributes(bad)


# Shared errors


def test_kappa_of_all_pairs_is_that_of_each() -> None:
    found = {(pair.first, pair.second): pair for pair in followups.shared_errors(scores(RIGHT)).rows}
    for i, j in itertools.combinations(range(4), 2):
        pair, expected = found[NAMES[i], NAMES[j]], cohen_kappa(RIGHT[i], RIGHT[j])
        assert pair.kappa.value == pytest.approx(expected.value)
        assert pair.kappa.stderr == pytest.approx(expected.stderr)
        assert pair.both == (~RIGHT[i] & ~RIGHT[j]).sum()
        assert abs(pair.kappa.value) < 4 * pair.kappa.stderr  # these models err independently


def test_same_wrong_answers_are_counted() -> None:
    answers = np.array([[0, 1, 2, 1, 2, 0, 0], [0, 1, 1, 1, 2, 2, 0]])
    outcomes = Outcomes.from_arrays(answers == 0, answers=answers.astype(str), key=["0"] * 7)
    pair = followups.shared_errors(outcomes).rows[0]
    assert (pair.both, pair.same_answer) == (4, 0.75)


def test_never_right_finds_what_was_planted() -> None:
    right = RIGHT.copy()
    right[0] = True
    right[:, [3, 77]] = False
    found = followups.shared_errors(scores(right))
    assert found.never_right_rows == (3, 77)
    assert found.never_right == ("item-3", "item-77")


@pytest.mark.parametrize("right", [np.full((4, 2), 0.5), np.array([[0.0, np.nan]])])
def test_fractions_and_missing_cells_are_refused(right: np.ndarray) -> None:
    with pytest.raises(InputError, match="outcomes"):
        followups.by_label(Outcomes.from_arrays(right), ["x"] * right.shape[-1])


def test_sheet_holds_every_image() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 3)).astype(np.uint8)
    sheet = followups.contact_sheet(images, columns=2)
    for i, image in enumerate(images):
        top, left = 2 + i // 2 * 5, 2 + i % 2 * 6
        np.testing.assert_array_equal(sheet[top : top + 3, left : left + 4], image)
    grey = followups.contact_sheet(np.full((1, 2, 2), 0.5), scale=3)
    assert grey.shape == (10, 10, 3)
    assert grey[2, 2].tolist() == [128, 128, 128]
    for bad in (np.zeros(3), np.full((1, 2, 2), 2.0), np.zeros((0, 2, 2))):
        with pytest.raises(InputError, match="images must"):
            followups.contact_sheet(bad)
    for name in ("columns", "scale"):
        with pytest.raises(InputError, match=name):
            followups.contact_sheet(images, **{name: 0})


# The commands


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    skills, hard = np.linspace(-0.7, 0.9, 6), rng.normal(-0.5, 1, 400)
    for name, extra in (("original", 0.0), ("new", 0.5)):
        right = skills[:, None] - hard - extra + rng.standard_normal((6, 400)) > 0
        np.savez(tmp_path / f"{name}.npz", right=right, models=[f"m{i}" for i in range(6)])
        with (tmp_path / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", *(f"m{i}" for i in range(6))])
            writer.writerows([f"e{n}", *column] for n, column in enumerate(right.T.astype(int).tolist()))
    with (tmp_path / "examples.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "duplicate", "label", "frequency", "source"])
        writer.writerows([f"e{n}", int(n % 10 == 0), n % 4, n % 11 / 10, "xy"[n % 2]] for n in reversed(range(400)))
    np.savez(tmp_path / "images.npz", x=rng.random((400, 4, 4)), y=np.arange(400) % 4)
    np.savez(tmp_path / "others.npz", x=rng.random((400, 4, 4)) ** 2, y=np.arange(400) % 4)
    return tmp_path


def run(files: Path, line: str) -> Any:
    words = [str(files / word) if (files / word).exists() or word == "out" else word for word in line.split()]
    plain = CliRunner().invoke(app, words, catch_exceptions=False)
    assert plain.exit_code == 0, plain.output
    assert plain.output.strip()
    result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_commands_answer(files: Path) -> None:
    assert run(files, "items original.csv")["kind"] == run(files, "items original.npz")["kind"]
    assert run(files, "scale original.npz new.npz")["p_value"] > 1e-4
    assert run(files, "discriminate images.npz others.npz")["p_value"] < 0.01
    found = run(files, "duplicates original.csv --examples examples.csv --new new.csv")["rows"]
    assert len(found) == 6
    assert found[0]["on_duplicates"]["n"] == 40
    assert len(run(files, "balanced original.csv --examples examples.csv")["rows"]) == 6
    assert len(run(files, "breakdown original.csv --examples examples.csv --by source")["rows"]) == 12
    assert len(run(files, "breakdown original.csv --examples examples.csv --by frequency")["rows"]) == 30
    assert len(run(files, "breakdown original.csv --images images.npz --by contrast")["rows"]) == 30
    assert run(files, "shared-errors original.csv")["kind"] == "CommonErrors"
    run(files, f"shared-errors original.csv --images images.npz --gallery {files / 'hard.png'}")
    with Image.open(files / "hard.png") as picture:
        assert (picture.format, picture.mode) == ("PNG", "RGB")


@pytest.mark.parametrize(
    "line",
    [
        "items nothing.npz",
        "items images.npz",
        "items original.npz --model 4pl",
        "breakdown original.csv",
        "shared-errors original.csv --gallery hard.png",
        "breakdown original.csv --images images.npz --by smell",
        "duplicates original.csv --examples examples.csv --column none",
        "discriminate images.npz others.npz --classifier tree",
    ],
)
def test_bad_commands_are_refused_in_one_sentence(files: Path, line: str) -> None:
    words = [str(files / word) if (files / word).exists() else word for word in line.split()]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, InputError)


@given(content=st.binary(max_size=300), suffix=st.sampled_from([".npz", ".csv", ".json", ".parquet", ".x"]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_matrix_file_is_read_or_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"matrix{suffix}"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        open_outcomes(path)


@given(text=st.text(alphabet="model,id correct\n01a.-", max_size=80))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_table_is_read_or_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text(text)
    with contextlib.suppress(InputError):
        open_outcomes(path)
