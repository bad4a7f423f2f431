import contextlib
import csv

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.predictions.made import labels, logits, names, probabilities

from hardpan.errors import InputError
from hardpan.predictions import Predictions, export, import_file
from hardpan.predictions.checks import softmax

S, E, N, C = 2, 3, 40, 4

PROBS = softmax(np.random.default_rng(0).standard_normal((40, 4)))


@pytest.fixture
def recorded(tmp_path):
    split = ["train"] * 30 + ["test"] * 10
    made = Predictions.create(
        tmp_path / "run",
        ids=names(N),
        n_classes=C,
        labels=labels(N, C),
        split=split,
        class_names=list("abcd"),
        block=16,
    )
    given = probabilities(S, E, N, C)
    for seed in range(S):
        for epoch in range(E):
            made.write(seed + 5, epoch + 1, given[seed, epoch])
    return made


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv"])
def test_what_is_exported_is_imported_bit_for_bit(tmp_path, recorded, suffix):
    file = tmp_path / f"out.{suffix}"
    brought = export(recorded, file)
    assert (brought.seeds, brought.epochs) == ((5, 6), (1, 2, 3))
    found = import_file(file, tmp_path / "back")
    assert found.outputs == "probabilities"
    back = Predictions.open(tmp_path / "back")
    assert np.array_equal(back.to_array(), recorded.to_array())
    assert (back.seeds, back.epochs) == ((5, 6), (1, 2, 3))
    assert back.ids.tolist() == recorded.ids.tolist()
    assert back.labels.tolist() == recorded.labels.tolist()
    assert back.split.tolist() == recorded.split.tolist()
    if suffix == "npz":
        assert back.class_names == recorded.class_names
        assert np.array_equal(Predictions.open(file).to_array(), recorded.to_array())


@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv"])
def test_float32_makes_the_same_journey(tmp_path, suffix):
    given = probabilities(N, C, dtype=np.float32)
    export(Predictions.from_arrays(given), tmp_path / f"out.{suffix}")
    import_file(tmp_path / f"out.{suffix}", tmp_path / "back", dtype="float32")
    assert np.array_equal(Predictions.open(tmp_path / "back").read(0, 0), given)


def test_ids_that_look_like_formulas_are_escaped_and_read_back(tmp_path):
    ids = np.array(["=1+1", "@cmd", "-x", "-3", "plain", "+1"])
    probs = np.random.default_rng(0).dirichlet([1, 1, 1], size=6)
    export(Predictions.from_arrays(probs, ids=ids, labels=np.arange(6) % 3), tmp_path / "probs.csv")
    cells = [line.split(",")[2] for line in (tmp_path / "probs.csv").read_text().splitlines()[1:]]
    assert cells == ["'=1+1", "'@cmd", "'-x", "-3", "plain", "+1"]
    assert set(Predictions.open(tmp_path / "probs.csv").ids.tolist()) == set(ids.tolist())


def test_some_seeds_and_epochs_are_exported(tmp_path, recorded):
    export(recorded, tmp_path / "some.npz", seeds=[6], epochs=[1, 3])
    found = Predictions.open(tmp_path / "some.npz")
    assert (found.seeds, found.epochs) == ((6,), (1, 3))
    assert np.array_equal(found.read(6, 3), recorded.read(6, 3))
    with pytest.raises(InputError, match="epochs"):
        export(recorded, tmp_path / "none.npz", seeds=[6], epochs=[9])


def test_a_file_that_is_there_is_not_written_over(tmp_path, recorded):
    (tmp_path / "out.npz").write_text("mine")
    with pytest.raises(InputError, match=r"out\.npz"):
        export(recorded, tmp_path / "out.npz")
    with pytest.raises(InputError, match=r"out\.xls"):
        export(recorded, tmp_path / "out.xls")
    assert (tmp_path / "out.npz").read_text() == "mine"


@pytest.mark.parametrize("axes", [2, 3, 4])
@pytest.mark.parametrize("compressed", [False, True])
def test_axes_mean_what_is_said(tmp_path, axes, compressed):
    full = probabilities(S, E, N, C)
    given = full[(0,) * (4 - axes)]
    (np.savez_compressed if compressed else np.savez)(tmp_path / "p.npz", probs=given, labels=labels(N, C))
    import_file(tmp_path / "p.npz", tmp_path / "run", block=13)
    found = Predictions.open(tmp_path / "run")
    assert np.array_equal(found.to_array(), given.reshape(found.to_array().shape))
    assert (len(found.seeds), len(found.epochs)) == (1, 1, *given.shape[:-2])[-2:]


def saved_logits(folder, suffix, given):
    file = folder / f"z.{suffix}"
    if suffix == "npy":
        np.save(file, given)
    else:
        np.savetxt(file, given, delimiter=",", header="p0,p1,p2,p3", comments="", fmt="%.17g")
    return file


@pytest.mark.parametrize("said", ["auto", "logits"])
@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_logits_become_probabilities_and_it_is_reported(tmp_path, said, suffix):
    given = logits(N, C)
    brought = import_file(saved_logits(tmp_path, suffix, given), tmp_path / "run", outputs=said, dtype="float32")
    assert (brought.outputs, brought.detected) == ("logits", said == "auto")
    assert np.array_equal(Predictions.open(tmp_path / "run").read(0, 0), softmax(given))


@pytest.mark.parametrize("said", ["auto", "logits"])
@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_logits_of_masked_classes_are_taken(tmp_path, said, suffix):
    given = np.where(np.arange(C) == 2, -np.inf, logits(N, C))
    import_file(saved_logits(tmp_path, suffix, given), tmp_path / "run", outputs=said, dtype="float32")
    found = Predictions.open(tmp_path / "run").read(0, 0)
    assert (found[:, 2] == 0).all()
    assert np.array_equal(found, softmax(given))


@pytest.mark.parametrize("bad", [[np.nan, 0, 0, 0], [np.inf, 0, 0, 0], [-np.inf] * C])
@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_logits_that_give_no_probabilities_are_refused_by_id(tmp_path, suffix, bad):
    given = logits(N, C)
    given[3] = bad
    with pytest.raises(InputError) as refused:
        import_file(saved_logits(tmp_path, suffix, given), tmp_path / "run", outputs="logits")
    assert "logits of row-0000003" in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_a_row_with_nan_is_not_advised_to_be_called_logits(tmp_path):
    given = probabilities(N, C)
    given[3, 0] = np.nan
    with pytest.raises(InputError) as refused:
        Predictions.from_arrays(given, outputs="probabilities").read(0, 0)
    assert "row-0000003" in str(refused.value)
    assert "logits" not in str(refused.value)


def shuffled_table(path, order, columns):
    if path.suffix == ".csv":
        with path.open("w", newline="") as lines:
            writer = csv.writer(lines)
            writer.writerow(columns)
            writer.writerows([[columns[name][row] for name in columns] for row in order])
    else:
        table = pyarrow.table({name: [values[row] for row in order] for name, values in columns.items()})
        pyarrow.parquet.write_table(table, path, row_group_size=7)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("form", ["list", "numbered", "named"])
def test_tables_in_any_order_and_form(tmp_path, suffix, form):
    if (suffix, form) == ("csv", "list"):
        pytest.skip("CSV has no lists")
    full = probabilities(S, E, N, C, dtype=np.float64)
    grid = [(s, e, n) for s in range(S) for e in range(E) for n in range(N)]
    columns = {
        "seed": [s for s, _, _ in grid],
        "epoch": [10 * e for _, e, _ in grid],
        "id": [f"{n:03d}" for _, _, n in grid],
        "label": [int(labels(N, C)[n]) for _, _, n in grid],
    }
    if form == "list":
        columns["probs"] = [full[at].tolist() for at in grid]
    else:
        for c in range(C):
            columns[f"prob_{c}" if form == "numbered" else "wxyz"[c]] = [float(full[(*at, c)]) for at in grid]
    file = tmp_path / f"t.{suffix}"
    shuffled_table(file, np.random.default_rng(0).permutation(len(grid)), columns)
    import_file(file, tmp_path / "run", dtype="float32", block=11)
    found = Predictions.open(tmp_path / "run")
    order = np.argsort(found.ids)
    assert found.ids[order].tolist() == [f"{n:03d}" for n in range(N)]
    assert found.epochs == (0, 10, 20)
    assert np.array_equal(found.to_array()[:, :, order], full.astype(np.float32))
    assert found.labels[order].tolist() == labels(N, C).tolist()
    assert found.class_names == (tuple("wxyz") if form == "named" else ())


def test_a_table_without_ids_is_taken_in_order(tmp_path):
    given = probabilities(N, C, dtype=np.float64)
    shuffled_table(tmp_path / "t.csv", range(N), {f"p{c}": given[:, c].tolist() for c in range(C)})
    import_file(tmp_path / "t.csv", tmp_path / "run", seeds=[4], epochs=[2])
    found = Predictions.open(tmp_path / "run")
    assert found.ids[:2].tolist() == ["row-0000000", "row-0000001"]
    assert np.array_equal(found.read(4, 2), given.astype(np.float16))


def test_class_names_as_labels_become_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("id,label,cat,dog\na,dog,0.25,0.75\nb,cat,1,0\n")
    import_file(tmp_path / "t.csv", tmp_path / "run")
    assert Predictions.open(tmp_path / "run").labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,p0,p1\na,0.5,0.5\na,0.5,0.5\n", r"\ba\b"),
        ("id,epoch,p0,p1\na,0,0.5,0.5\nb,0,0.5,0.5\na,1,0.5,0.5\n", r"\bb\b"),
        ("id,label,p0,p1\na,0,0.5,0.5\nb,7,0.5,0.5\n", "labels"),
        ("id,epoch,label,p0,p1\na,0,0,0.5,0.5\na,1,1,0.5,0.5\n", "label"),
        ("id,p0,p2\na,0.5,0.5\n", "numbered"),
        ("id,p0\na,1\n", "probabilities"),
        ("id,p0,p1\n", "rows"),
        ("id,p0,p1\na,0.5,x\n", "p1"),
        ("", "rows"),
        (
            "id,p0,p1\na,0.5,0.5\nb,0.9,0.9\nc,0.5,0.5\n",
            r"\bb\b",
        ),
        ("id,p0,p1\na,0.5,0.5\nb,,0.9\nc,0.5,0.5\n", r"\bb\b"),
        ("seed,p0,p1\n-1,0.5,0.5\n", "seed"),
        ("seed,p0,p1\n2147483648,0.5,0.5\n", "seed"),
        ("seed,p0,p1\n99999999999999999999,0.5,0.5\n", "seed"),
        ("seed,p0,p1\none,0.5,0.5\n", "seed"),
        ("id,label,cat,dog\na,bird,0.5,0.5\n", "bird"),
    ],
)
def test_tables_that_cannot_be_right_are_refused_and_leave_no_store(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        import_file(tmp_path / "t.csv", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_bad_rows_of_arrays_are_named_by_their_ids(tmp_path):
    given = probabilities(S, E, N, C, dtype=np.float64)
    given[1, 2, 17] += 0.01
    np.savez(tmp_path / "p.npz", probs=given, ids=names(N))
    with pytest.raises(InputError, match="image-17"):
        import_file(tmp_path / "p.npz", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_second_import_adds_seeds(tmp_path):
    full = probabilities(2, N, C)
    for seed in (0, 1):
        np.save(tmp_path / f"{seed}.npy", full[seed])
        import_file(tmp_path / f"{seed}.npy", tmp_path / "run", seeds=[seed], labels=labels(N, C))
    assert np.array_equal(Predictions.open(tmp_path / "run").to_array()[:, 0], full)
    import_file(tmp_path / "1.npy", tmp_path / "run", seeds=[1], labels=labels(N, C))
    with pytest.raises(InputError, match="--seeds"):
        import_file(tmp_path / "1.npy", tmp_path / "run", seeds=[0], labels=labels(N, C))


@settings(max_examples=30)
@given(st.binary(max_size=300), st.sampled_from(["npy", "npz", "parquet", "csv"]))
def test_any_bytes_give_one_sentence(tmp_path_factory, content, suffix):
    folder = tmp_path_factory.mktemp("bytes")
    (folder / f"p.{suffix}").write_bytes(content)
    with pytest.raises(InputError, match=f"p.{suffix}"):
        import_file(folder / f"p.{suffix}", folder / "run")
    assert not (folder / "run").exists()


@pytest.mark.parametrize("suffix", ["parquet", "npz"])
def test_damaged_files_give_one_sentence_or_the_truth(tmp_path, recorded, suffix):
    file = tmp_path / f"whole.{suffix}"
    export(recorded, file)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    for trial in range(12):
        data = bytearray(whole)
        if trial % 2:
            data = data[: rng.integers(len(data))]
        else:
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        damaged = tmp_path / f"d{trial}.{suffix}"
        damaged.write_bytes(data)
        with contextlib.suppress(InputError):
            import_file(damaged, tmp_path / f"run{trial}")
            assert np.array_equal(Predictions.open(tmp_path / f"run{trial}").to_array(), recorded.to_array())


def test_an_export_below_a_file_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"p\.npz"):
        export(Predictions.from_arrays(PROBS), tmp_path / "file" / "p.npz")


def test_a_store_may_be_called_like_a_file(tmp_path):
    made = Predictions.create(tmp_path / "run.npz", ids=[f"i{k}" for k in range(40)], n_classes=4)
    made.write(0, 0, PROBS)
    assert np.array_equal(Predictions.open(tmp_path / "run.npz").read(0, 0), PROBS.astype(np.float16))


def bytes_table(path, ids):
    columns = {"id": pyarrow.array(ids, type=pyarrow.binary())} | {f"p{k}": PROBS[: len(ids), k] for k in range(4)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def test_ids_of_bytes_are_text(tmp_path):
    bytes_table(tmp_path / "p.parquet", ["Zoë".encode(), b"plain", "猫".encode()])
    import_file(tmp_path / "p.parquet", tmp_path / "run")
    assert Predictions.open(tmp_path / "run").ids.tolist() == ["Zoë", "plain", "猫"]
    bytes_table(tmp_path / "bad.parquet", [b"\xff\xfe", b"plain", b"b"])
    with pytest.raises(InputError, match=r"\bid\b"):
        import_file(tmp_path / "bad.parquet", tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("text", ["id p0 p1\na 0.5 0.5\n", "id,p0,p0\na,0.5,0.5\n"])
def test_tables_with_spaces_or_one_name_twice_are_refused(tmp_path, text):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(InputError):
        import_file(tmp_path / "p.csv", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_labels_may_be_names_of_classes(tmp_path):
    names = ("ant", "bee", "cat", "dog")
    np.save(tmp_path / "p.npy", PROBS)
    numbers = np.arange(40) % 4
    labels = np.array(names)[numbers]
    import_file(tmp_path / "p.npy", tmp_path / "run", labels=labels, class_names=names)
    assert np.array_equal(Predictions.open(tmp_path / "run").labels, numbers)
    with pytest.raises(InputError, match="class_names"):
        import_file(tmp_path / "p.npy", tmp_path / "other", labels=labels)
