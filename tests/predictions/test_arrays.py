import numpy as np
import pytest
from tests.predictions.made import labels, logits, names, probabilities

from hardpan.errors import InputError
from hardpan.predictions import Predictions

N, C = 50, 4


@pytest.mark.parametrize("axes", [2, 3, 4])
@pytest.mark.parametrize("suffix", ["npy", "npz", "compressed"])
def test_files_open_as_stores_do(tmp_path, axes, suffix):
    given = probabilities(*(2, 3, N, C)[4 - axes :])
    path = tmp_path / f"p.{'npy' if suffix == 'npy' else 'npz'}"
    if suffix == "npy":
        np.save(path, given)
    else:
        write = np.savez if suffix == "npz" else np.savez_compressed
        write(path, probs=given, ids=names(N), labels=labels(N, C), class_names=list("abcd"))
    found = Predictions.open(path)
    full = given.reshape((1,) * (4 - axes) + given.shape)
    assert len(found.seeds) == full.shape[0]
    assert len(found.epochs) == full.shape[1]
    assert np.array_equal(found.to_array(), full)
    assert np.array_equal(found.read(0, 0, 10, 20), full[0, 0, 10:20])
    if suffix == "npy":
        assert found.ids[0] == "row-0000000"
        assert found.labels is None
    else:
        assert found.ids.tolist() == names(N).tolist()
        assert found.labels.tolist() == labels(N, C).tolist()
        assert found.class_names == ("a", "b", "c", "d")
    with pytest.raises(InputError, match="read-only"):
        found.write(0, 9, given)


def test_logits_are_read_as_probabilities(tmp_path):
    given = logits(N, C)
    np.savez(tmp_path / "z.npz", logits=given)
    found = Predictions.open(tmp_path / "z.npz").read(0, 0)
    expected = np.exp(given) / np.exp(given).sum(axis=1, keepdims=True)
    assert np.allclose(found, expected, rtol=1e-5)


def test_fortran_order_is_read_right(tmp_path):
    given = np.asfortranarray(probabilities(2, 3, N, C))
    np.save(tmp_path / "p.npy", given)
    np.savez(tmp_path / "p.npz", p=given)
    for name in ("p.npy", "p.npz"):
        assert np.array_equal(Predictions.open(tmp_path / name).to_array(), given)


def test_seeds_and_epochs_keep_their_numbers(tmp_path):
    given = probabilities(2, 2, N, C)
    np.savez(tmp_path / "p.npz", probabilities=given, seeds=[5, 3], epochs=[10, 20])
    found = Predictions.open(tmp_path / "p.npz")
    assert found.seeds == (3, 5)
    assert np.array_equal(found.read(5, 20), given[0, 1])


@pytest.mark.parametrize(
    ("array", "argument"),
    [
        (np.ones(5), "probs"),
        (np.ones((5, 2), dtype=complex), "probs"),
        (np.ones((0, 2)), "probs"),
        (np.ones((5, 1)), "probs"),
        ([[0.5, 0.5], [1.0]], "probs"),
    ],
)
def test_other_arrays_are_refused(array, argument):
    with pytest.raises(InputError, match=argument):
        Predictions.from_arrays(array)


def test_a_bad_row_is_refused_when_read():
    given = probabilities(N, C, dtype=np.float64)
    given[7] = -given[7]
    with pytest.raises(InputError, match="row-0000007"):
        Predictions.from_arrays(given).read(0, 0)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\x93NUMPY\x01\x00garbage"])
@pytest.mark.parametrize("name", ["p.npz", "p.npy"])
def test_files_that_are_something_else_give_one_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        Predictions.open(tmp_path / name)


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "p.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "p.npz", probs=np.array([{}, 1], dtype=object))
    for name in ("p.npy", "p.npz"):
        with pytest.raises(InputError, match=name):
            Predictions.open(tmp_path / name)


def test_control_characters_in_names_do_not_reach_charts():
    found = Predictions.open({"a\x07b": probabilities(5, 2)}, class_names=["x\x1b", "y"])
    assert found.models[0].isprintable()
    assert all(name.isprintable() for name in found.class_names)
