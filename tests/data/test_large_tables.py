"""Tables of which a sample is read: what is known of all rows does not depend on how they were read."""

from __future__ import annotations

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from hardpan import tables
from hardpan.auditing import running
from hardpan.auditing.evidence import AuditConfig, EveryRow
from hardpan.auditing.problems import find_problems
from hardpan.auditing.running import _gather_evidence
from hardpan.bayes.floors.inputs import split_inputs
from hardpan.data import Dataset, large_tables
from hardpan.data.tabular import DataOptions
from hardpan.errors import InputError
from hardpan.tables import TableBlocks, blocks, csv_files

N, COPIES = 3000, 40
REPEATS = ("test-copies", "duplicates", "conflicting-labels")


@pytest.fixture(scope="module")
def table():
    """Numbers with gaps, a category with words for a gap; rows of test copied from train in other blocks."""
    rng = np.random.default_rng(0)
    numbers = np.where(np.arange(N) % 97 == 96, np.nan, rng.normal(size=N))
    counts = rng.integers(0, 10**9, N) + 2**53
    kind = np.array(["red", "green", "?", ""])[rng.integers(0, 4, N)]
    label = np.array(["no", "yes", "perhaps"])[np.minimum(rng.integers(0, 2, N), 1)]
    split = np.where(np.arange(N) % 5 == 4, "test", "train")
    test, train = np.flatnonzero(split == "test"), np.flatnonzero(split == "train")
    copied = test[-COPIES:]
    for column in (numbers, counts, kind):
        column[copied] = column[train[:COPIES]]
    label[copied] = label[train[:COPIES]]
    label[copied[:5]] = "perhaps"  # in conflict with the row that they equal
    return pyarrow.table(
        {
            "number": pyarrow.array(numbers, from_pandas=True),
            "count": counts,
            "kind": kind,
            "same": np.ones(N),
            "label": label,
            "split": split,
        }
    )


def all_rows(table, sample, block_rows):
    options = DataOptions(sample=sample)
    opened = TableBlocks.open({"": [table]}, block_rows=block_rows)
    return large_tables.sampled_dataset(opened, options, [], "", "table", "table")


def groups(keys):
    """The first row with the same key, of each row."""
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return first[number.ravel()].tolist()


def test_facts_of_blocks_are_those_of_the_whole_table(table):
    whole = Dataset.from_frame(table)
    inputs = split_inputs(whole, whole.labels, 0)
    for block_rows in (7, 1000, N):
        dataset = all_rows(table, 500, block_rows)
        known = dataset.all_rows
        assert groups(known.keys) == groups(inputs.equal.group)
        assert dataset.class_names == whole.class_names
        assert known.labels.tolist() == whole.labels.tolist()
        assert np.array(["train", "validation", "test"])[known.split].tolist() == whole.split.tolist()
        assert [item.columns for item in dataset.warnings if item.code == "constant"] == [("same",)]
        (missing,) = [item for item in dataset.warnings if item.code == "missing_cells"]
        gaps = int(np.isin(table["kind"].to_numpy(zero_copy_only=False), ["?", ""]).sum())
        assert f"number ({table['number'].null_count:,} of {N:,} rows)" in missing.message
        assert f"kind ({gaps:,} of {N:,} rows)" in missing.message


def test_a_sample_has_the_rows_that_it_names(table):
    dataset = all_rows(table, 500, 64)
    rows = dataset.metadata["row"]
    assert len(rows) == len(np.unique(rows)) == len(dataset) in range(498, 503)
    assert (np.diff(rows) > 0).all()
    chosen = table.take(rows)
    assert np.array(dataset.class_names)[dataset.labels].tolist() == chosen["label"].to_pylist()
    assert dataset.split.tolist() == chosen["split"].to_pylist()
    assert dataset.x[:, dataset.feature_names.index("count")].tolist() == list(
        map(float, chosen["count"].to_pylist())
    )


def test_planted_copies_are_found_in_all_rows(table):
    def repeats(dataset):
        evidence = _gather_evidence(dataset, AuditConfig(ensemble="none"))
        problems = [item for item in find_problems(evidence, None) if item.kind in REPEATS]
        return evidence, {(item.kind, item.of): item.count.value for item in problems}

    _, expected = repeats(Dataset.from_frame(table))
    evidence, found = repeats(all_rows(table, 500, 100))
    assert found == expected
    assert found["test-copies", "test"] == COPIES
    assert evidence.copy_test.p_value < 1e-6
    assert [note.details["of"] for note in evidence.notes if note.code == "sampled"] == [N]
    assert np.isin(
        evidence.dataset.metadata["row"][evidence.inputs.copied], np.flatnonzero(np.arange(N) % 5 == 4)
    ).all()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz"])
def test_files_are_read_by_blocks(table, suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "LARGE_CELLS", 100)
    monkeypatch.setattr(blocks, "LARGE_BYTES", 100)
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 5000)
    path = tmp_path / f"table{suffix}"
    whole = table.set_column(
        2, "kind", [["a, b\nc" if kind == "red" else kind for kind in table["kind"].to_pylist()]]
    )
    if suffix == ".parquet":
        pyarrow.parquet.write_table(whole, path)
    else:
        frame = whole.to_pandas()
        frame.loc[frame.index >= N - 10, "same"] = 1.5  # whole numbers before
        frame.to_csv(path, index=False)
    dataset = Dataset.open(path, sample=400)
    read = Dataset.open(path)
    every = EveryRow.of(split_inputs(dataset, dataset.labels, 0))
    assert groups(every.equal.group) == groups(split_inputs(read, read.labels, 0).equal.group)
    assert every.labels.tolist() == read.labels.tolist()
    same = {item.code for item in dataset.warnings} - {"sampled", "missing_cells"}
    assert same == {item.code for item in read.warnings}


def test_files_of_each_split_and_rows_without_a_label(table, tmp_path):
    for split in ("train", "test"):
        part = table.filter(pyarrow.compute.equal(table["split"], split)).drop_columns("split")
        label = part["label"].to_pylist()
        part = part.set_column(4, "label", [[None if row % 10 == 0 else name for row, name in enumerate(label)]])
        pyarrow.parquet.write_table(part, tmp_path / f"{split}.parquet")
    dataset, whole = Dataset.open(tmp_path, sample=300), Dataset.open(tmp_path)
    assert dataset.all_rows.row.tolist() == whole.metadata["row"].tolist()
    assert dataset.all_rows.labels.tolist() == whole.labels.tolist()
    at = {
        (split, row): name for split, row, name in zip(whole.split, whole.metadata["row"], whole.ids, strict=True)
    }
    rows = zip(dataset.split, dataset.metadata["row"], strict=True)
    assert [at[split, row].partition("-")[0] for split, row in rows] == [n.partition("-")[0] for n in dataset.ids]


def test_blocks_with_other_columns_are_refused(table):
    with pytest.raises(InputError, match="kind"):
        TableBlocks.open({"train": [table], "test": [table.drop_columns("kind")]})


def test_corrections_of_a_sample_change_what_is_known_of_all_rows(table, tmp_path):
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet")
    dataset = Dataset.open(tmp_path / "table.parquet", sample=200)
    new = "yes" if dataset.class_names[dataset.labels[3]] != "yes" else "no"
    lines = ["id,corrected_label,tags", f"{dataset.ids[3]},{new},", f"{dataset.ids[8]},,exclude"]
    (tmp_path / "corrections.csv").write_text("\n".join(lines))
    corrected = Dataset.open(f"{tmp_path}/table.parquet@{tmp_path}/corrections.csv", sample=200)
    known, row = corrected.all_rows, dataset.metadata["row"]
    assert (len(corrected), len(known.labels)) == (len(dataset) - 1, N - 1)
    assert known.row[known.sampled].tolist() == corrected.metadata["row"].tolist()
    assert known.labels[known.sampled].tolist() == corrected.labels.tolist()
    changed = known.labels != np.delete(dataset.all_rows.labels, row[8])
    assert known.row[changed].tolist() == [row[3]]


def test_the_audit_of_a_large_table_says_what_a_sample_was_used_for(table, tmp_path, monkeypatch):
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet")
    for module in (blocks, tables):
        monkeypatch.setattr(module, "LARGE_CELLS", 100)
    monkeypatch.setattr(running, "MIN_ROWS", 300)
    out = tmp_path / "out"
    report = running.audit(tmp_path / "table.parquet", out=out, budget=0.05, ensemble="none", flow="none")
    assert (report.size["examples"], report.size["test"]) == (N, N // 5)
    (copies,) = [item for item in report.problems if item.kind == "test-copies"]
    assert (copies.count.value, copies.proportion.n) == (COPIES, N // 5)
    assert f"{N:,} examples" in " ".join(report.view().lede)
    repeats = tables.read_columns(out / "problems" / "repeats.csv")
    of_test = [row for split, row in zip(repeats["split"], repeats["row"], strict=True) if split == "test"]
    assert len(of_test) == COPIES
    assert set(report.examples["row"].to_pylist()) <= set(range(N))
    assert len(report.examples) < 500
