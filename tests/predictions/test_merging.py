import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.predictions.made import labels, names, probabilities

from hardpan.errors import InputError
from hardpan.predictions import Predictions, merge

S, E, N, C = 4, 1, 60, 3
FULL = probabilities(S, E, N, C)


def part(path, rows, seeds, *, number=None, block=17, **options):
    """A store of some examples and seeds of the full array."""
    rows = np.asarray(rows)
    given = {"ids": names(N)[rows], "n_classes": C, "labels": labels(N, C)[rows], "block": block} | options
    made = Predictions.create(path, **given)
    for place, seed in enumerate(seeds):
        for epoch in range(E):
            made.write(seed if number is None else number[place], epoch, FULL[seed, epoch, rows])
    return path


def check(path, seeds=range(S), n=N):
    found = Predictions.open(path)
    order = np.argsort([int(name.removeprefix("image-")) for name in found.ids])
    assert found.seeds == tuple(seeds)
    assert found.epochs == tuple(range(E))
    assert len(found) == n
    assert np.array_equal(found.to_array()[:, :, order], FULL[list(seeds), :, :n])
    assert found.labels[order].tolist() == labels(N, C)[:n].tolist()


def test_over_seeds_whatever_the_order_of_examples(tmp_path):
    everything = np.arange(N)
    shuffled = np.random.default_rng(0).permutation(N)
    paths = [
        part(tmp_path / "a", everything, [0, 1]),
        part(tmp_path / "b", shuffled, [2], block=60),
        part(tmp_path / "c", everything[::-1], [3], block=7),
    ]
    brought = merge(paths, tmp_path / "all", block=25)
    assert brought.seeds == (0, 1, 2, 3)
    check(tmp_path / "all")
    assert Predictions.open(tmp_path / "all").ids.tolist() == names(N).tolist()


def test_over_examples(tmp_path):
    paths = [part(tmp_path / "a", range(25), range(S)), part(tmp_path / "b", range(25, N), range(S))]
    merge(paths, tmp_path / "all")
    check(tmp_path / "all")


@settings(max_examples=10)
@given(st.data())
def test_any_division_into_examples_and_seeds_comes_together(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("merge")
    order = np.array(data.draw(st.permutations(range(N))))
    cuts = sorted(data.draw(st.sets(st.integers(1, N - 1), max_size=2)))
    paths = []
    for number, rows in enumerate(np.split(order, cuts)):
        cut = data.draw(st.integers(1, S))
        for seeds in (range(cut), range(cut, S)):
            if seeds:
                block = data.draw(st.integers(20, N))
                paths.append(
                    part(folder / f"{number}-{seeds[0]}", data.draw(st.permutations(rows)), seeds, block=block)
                )
    if len(paths) > 1:
        merge(data.draw(st.permutations(paths)), folder / "all", block=data.draw(st.integers(20, N)))
        check(folder / "all")


def test_a_merge_again_changes_nothing_and_a_stopped_one_goes_on(tmp_path):
    paths = [part(tmp_path / "a", range(25), range(S)), part(tmp_path / "b", range(25, N), range(S))]
    merge(paths, tmp_path / "all", block=20)
    for marker in ("2/0/commit/1.json", "3/0/commit/0.json", "3/0/commit/2.json"):
        (tmp_path / "all/probabilities" / marker).unlink()
    merge(paths, tmp_path / "all", block=20)
    merge(paths, tmp_path / "all", block=20)
    check(tmp_path / "all")


def test_the_same_seed_twice_is_refused_or_renumbered(tmp_path):
    paths = [
        part(tmp_path / "a", range(N), [0, 1], number=[0, 1]),
        part(tmp_path / "b", range(N), [2, 3], number=[0, 1]),
    ]
    with pytest.raises(InputError, match="--renumber"):
        merge(paths, tmp_path / "all")
    merge(paths, tmp_path / "all", renumber=True)
    check(tmp_path / "all")


def test_an_id_in_two_stores_of_other_examples_is_refused(tmp_path):
    paths = [part(tmp_path / "a", range(31), range(S)), part(tmp_path / "b", range(30, N), range(S))]
    with pytest.raises(InputError, match="image-30"):
        merge(paths, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_epochs_that_some_examples_lack_are_refused_or_left_out(tmp_path):
    paths = [part(tmp_path / "a", range(25), range(S)), part(tmp_path / "b", range(25, N), range(2))]
    with pytest.raises(InputError, match="--common"):
        merge(paths, tmp_path / "all")
    brought = merge(paths, tmp_path / "all", common=True)
    assert brought.missing is not None
    assert (brought.missing.seed, brought.missing.epoch, brought.missing.examples) == (2, 0, N - 25)
    assert str(tmp_path / "b") == brought.missing.source
    check(tmp_path / "all", seeds=range(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_names": ["x", "y", "z"]}, "class"),
        ({"labels": np.roll(labels(N, C), 1)}, "labels"),
    ],
)
def test_stores_that_contradict_each_other_are_refused(tmp_path, options, message):
    first = part(tmp_path / "a", range(N), [0], class_names=["a", "b", "c"])
    with pytest.raises(InputError, match=message):
        merge([first, part(tmp_path / "b", range(N), [1], **options)], tmp_path / "all")


def test_labels_that_only_some_know_are_left_out_with_a_note(tmp_path):
    paths = [part(tmp_path / "a", range(25), [0]), part(tmp_path / "b", range(25, N), [0], labels=None)]
    brought = merge(paths, tmp_path / "all")
    assert brought.unknown == {"labels": str(tmp_path / "b")}
    assert Predictions.open(tmp_path / "all").labels is None


def test_the_wider_type_wins_and_nothing_is_rounded(tmp_path):
    wide = Predictions.create(tmp_path / "b", ids=names(N), n_classes=C, labels=labels(N, C), dtype="float32")
    exact = probabilities(N, C, seed=9, dtype=np.float32)
    wide.write(7, 0, exact)
    np.savez(tmp_path / "a.npz", probs=FULL[0, 0], ids=names(N))
    merge([tmp_path / "a.npz", tmp_path / "b"], tmp_path / "all")
    found = Predictions.open(tmp_path / "all")
    assert found.dtype == np.float32
    assert np.array_equal(found.read(7, 0), exact)
    assert np.array_equal(found.read(0, 0), FULL[0, 0].astype(np.float32))


def test_one_source_or_the_target_among_them_is_refused(tmp_path):
    path = part(tmp_path / "a", range(N), [0])
    with pytest.raises(InputError, match="two"):
        merge([path], tmp_path / "all")
    with pytest.raises(InputError, match="sources"):
        merge([path, tmp_path / "all"], tmp_path / "all")
