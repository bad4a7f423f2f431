"""What stands at the door of a store: shares of 100, odd tables, places that cannot be written, labels by name."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from hardpan.errors import InputError
from hardpan.predictions import Predictions
from hardpan.predictions.checks import detect, softmax
from hardpan.predictions.exporting import export
from hardpan.predictions.importing import import_file

PROBS = softmax(np.random.default_rng(0).standard_normal((40, 4)))


@pytest.mark.parametrize("total", [100, 255, 7])
def test_shares_of_another_whole_are_no_logits(total):
    shares = np.round(PROBS * total * 100) / 100
    with pytest.raises(InputError, match=f"all sum to about {total}.*divide them by it, or say"):
        detect("p.npy", shares)
    assert detect("p.npy", shares, "logits") == "logits"


def test_logits_that_are_not_negative_are_logits():
    assert detect("z", np.maximum(5 * np.random.default_rng(1).standard_normal((40, 4)), 0) + 1) == "logits"
    assert detect("z", np.array([[3.0, 1.0, 0.0]])) == "logits"


def test_an_export_below_a_file_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written .*; give another place"):
        export(Predictions.from_arrays(PROBS), tmp_path / "file" / "p.npz")


def test_a_store_may_be_called_like_a_file(tmp_path):
    made = Predictions.create(tmp_path / "run.npz", ids=[f"i{k}" for k in range(40)], n_classes=4)
    made.write(0, 0, PROBS)
    assert np.array_equal(Predictions.open(tmp_path / "run.npz").read(0, 0), PROBS.astype(np.float16))


def table(path, ids):
    columns = {"id": pyarrow.array(ids, type=pyarrow.binary())} | {f"p{k}": PROBS[: len(ids), k] for k in range(4)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def test_ids_of_bytes_are_text(tmp_path):
    table(tmp_path / "p.parquet", ["Zoë".encode(), b"plain", "猫".encode()])
    import_file(tmp_path / "p.parquet", tmp_path / "run")
    assert Predictions.open(tmp_path / "run").ids.tolist() == ["Zoë", "plain", "猫"]
    table(tmp_path / "bad.parquet", [b"\xff\xfe", b"plain", b"b"])
    with pytest.raises(InputError, match="id must be text; got bytes that are not UTF-8"):
        import_file(tmp_path / "bad.parquet", tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id;p0;p1\na;0.5;0.5\n", "columns are separated by ';'; separate them by commas"),
        ("id\tp0\tp1\na\t0.5\t0.5\n", r"separated by '\\t'"),
        ("id,p0,p0\na,0.5,0.5\n", "two columns are called 'p0'; rename one"),
    ],
)
def test_tables_say_what_is_wrong_with_their_columns(tmp_path, text, told):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(InputError, match=told):
        import_file(tmp_path / "p.csv", tmp_path / "run")


def test_labels_may_be_names_of_classes(tmp_path):
    names = ("ant", "bee", "cat", "dog")
    np.save(tmp_path / "p.npy", PROBS)
    numbers = np.arange(40) % 4
    labels = np.array(names)[numbers]
    import_file(tmp_path / "p.npy", tmp_path / "run", labels=labels, class_names=names)
    assert np.array_equal(Predictions.open(tmp_path / "run").labels, numbers)
    with pytest.raises(InputError, match=r"labels must hold integers 0..C-1; got the text 'ant'"):
        import_file(tmp_path / "p.npy", tmp_path / "other", labels=labels)


def test_a_table_is_imported_before_it_is_opened(tmp_path):
    (tmp_path / "p.csv").write_text("id,p0,p1\na,0.5,0.5\n")
    with pytest.raises(InputError, match=r"p\.csv: holds no predictions; put the table into a store: hardpan"):
        Predictions.open(tmp_path / "p.csv")
