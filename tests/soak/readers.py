"""Every reader of files with a small valid file, for tests that damage them.

A package joins by adding a line to READERS: how a valid file is written, and the public function that reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.feather
from tests.data.samples import SAMPLES, Truth
from tests.outcomes import logs

from hardpan import files, tables
from hardpan.data import Dataset
from hardpan.errors import InputError

from .damage import damaged

TABLE_KINDS = ("csv", "tsv", "json", "jsonl", "parquet")
PROBS = np.random.default_rng(0).dirichlet([1, 1, 1], size=12)
COLUMNS = {
    "a": [0.5, 1.5, None, 3.5] * 3,
    "town": ["rome", "oslo", "", "rome"] * 3,
    "label": ["cat", "dog", "owl"] * 4,
}


@dataclass(frozen=True)
class Reader:
    """How a valid file (or folder) is written, and how it is read."""

    name: str
    write: Callable[[Path], Path]
    read: Callable[[Path], Any]


def _table(ending: str) -> Callable[[Path], Path]:
    return lambda folder: tables.write_table(folder / f"table.{ending}", COLUMNS)


def _feather(folder: Path) -> Path:
    pyarrow.feather.write_feather(pyarrow.table(COLUMNS), str(folder / "table.feather"))
    return folder / "table.feather"


def _npz(folder: Path) -> Path:
    np.savez_compressed(folder / "probs.npz", probs=PROBS, labels=np.arange(12) % 3)
    return folder / "probs.npz"


def _npy(folder: Path) -> Path:
    np.save(folder / "probs.npy", PROBS)
    return folder / "probs.npy"


def _probs(kind: str) -> Callable[[Path], Path]:
    columns: dict[str, Any] = {"id": [f"e{row}" for row in range(12)], "label": [row % 3 for row in range(12)]}
    numbers = {"probs": PROBS.tolist()} if kind in ("json", "jsonl") else {f"p{c}": PROBS[:, c] for c in range(3)}
    return lambda folder: tables.write_table(folder / f"probs.{kind}", columns | numbers)


def _class_names(folder: Path) -> Path:
    (folder / "names.txt").write_text("cat\ndog\nowl\n")
    return folder / "names.txt"


def _matrix(kind: str) -> Callable[[Path], Path]:
    items = {f"q{item}": [int((row + item) % 3 > 0) for row in range(4)] for item in range(6)}
    return lambda folder: tables.write_table(folder / f"matrix.{kind}", {"model": [*"abcd"], **items})


def _answers(kind: str) -> Callable[[Path], Path]:
    columns = {"id": [f"e{row}" for row in range(8)], "label": [row % 3 for row in range(8)]}
    return lambda folder: tables.write_table(folder / f"labels.{kind}", columns)


def _sample(write: Callable[[Path], tuple[Path, Truth]]) -> Callable[[Path], Path]:
    return lambda folder: write(folder)[0]


def _predictions(path: Path) -> Any:
    from hardpan import Predictions

    return Predictions.open(path)


def _outcomes(path: Path) -> Any:
    from hardpan import Outcomes

    return Outcomes.open(path)


def _ledger(path: Path) -> Any:
    from hardpan.ledger.labels import as_ledger_labels, read_label_file

    return as_ledger_labels(read_label_file(path, "label").values, "labels")


def _named(path: Path) -> Any:
    return Dataset.open((np.eye(3), np.arange(3)), class_names=path)


def _logs(kind: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        if kind == "lm-eval":
            rows = [logs.choice_row(item, [-1.0, -2.0, -3.0], item % 3) for item in range(4)]
            return logs.write_lm_eval(folder / "model", "quiz", rows, {"model_name": "m"}).parent
        if kind == "helm":
            return logs.write_helm(folder / "run", "m", [1.0, 0.0, 1.0])
        log = logs.inspect_log("m", [logs.sample(item, "CI"[item % 2]) for item in range(4)])
        if kind == "inspect":
            return logs.write_eval(folder / "log.eval", log)
        (folder / "log.json").write_text(json.dumps(log))
        return folder / "log.json"

    return write


def _store(folder: Path) -> Path:
    from hardpan import Predictions

    store = Predictions.create(folder / "run", ids=np.array([f"e{row}" for row in range(12)]), n_classes=3, block=5)
    store.write(0, 1, PROBS)
    return folder / "run"


def _read_store(path: Path) -> Any:
    return _predictions(path).to_array()


def _book(folder: Path) -> Path:
    from hardpan import ledger

    book = ledger.create(folder / "book", np.arange(200) % 4, bytes(range(32)))
    book.submit(np.arange(200) % 3, name="one")
    return folder / "book"


def _read_book(path: Path) -> Any:
    from hardpan import ledger

    book = ledger.open(path, bytes(range(32)))
    return book.verify(), book.status()


def _model(folder: Path) -> Path:
    import hardpan
    from hardpan import training

    data = Dataset.open((np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2))
    with hardpan.parallel(workers=1):
        made = training.train(data, model="linear", seeds=1, epochs=1, device="cpu", out=folder / "run")
    return Path(made.runs[0].weights)


def _read_model(path: Path) -> Any:
    from hardpan.training.saved import load_model

    return load_model(path)


def _flow(folder: Path) -> Path:
    from tests.flows.small import VECTORS, random_flow

    return random_flow(VECTORS).save(folder / "flow")


def _read_flow(path: Path) -> Any:
    from hardpan import flows

    return flows.load(path)


def _votes(folder: Path) -> Path:
    np.savez(folder / "votes.npz", votes=np.random.default_rng(0).integers(0, 5, (12, 3)))
    return folder / "votes.npz"


def _read_votes(path: Path) -> Any:
    from hardpan.bayes.floors.votes import read_votes

    return read_votes(path)


LOGS = ("lm-eval", "inspect", "inspect json", "helm")
READERS = [
    *(Reader(f"Dataset: {sample.name}", _sample(sample.write), Dataset.open) for sample in SAMPLES),
    *(
        Reader(f"Dataset: {kind}", _table(kind), Dataset.open)
        for kind in ("csv", "tsv", "json", "jsonl", "parquet")
    ),
    Reader("Dataset: feather", _feather, Dataset.open),
    Reader("Dataset: class names", _class_names, _named),
    *(Reader(f"tables: {kind}", _table(kind), tables.read_columns) for kind in ("csv", "json", "jsonl", "parquet")),
    Reader("files: npz", _npz, files.read_npz),
    Reader("files: npy", _npy, files.read_npy),
    Reader("files: npy mapped", _npy, lambda path: files.read_npy(path, mmap=True)),
    Reader("files: json", _table("json"), files.read_json),
    Reader("Predictions: npz", _npz, _predictions),
    Reader("Predictions: npy", _npy, _predictions),
    *(Reader(f"Predictions: {kind}", _probs(kind), _predictions) for kind in TABLE_KINDS),
    *(Reader(f"Outcomes: {kind}", _matrix(kind), _outcomes) for kind in ("csv", "json", "jsonl", "parquet")),
    *(Reader(f"Ledger: {kind}", _answers(kind), _ledger) for kind in ("csv", "json", "parquet")),
    Reader("Ledger: npz", _npz, _ledger),
    *(Reader(f"Outcomes: {kind}", _logs(kind), _outcomes) for kind in LOGS),
    Reader("Predictions: store", _store, _read_store),
    Reader("Ledger: folder", _book, _read_book),
    Reader("Votes: npz", _votes, _read_votes),
    Reader("Model: folder", _model, _read_model),
    Reader("Flow: folder", _flow, _read_flow),
]


@dataclass(frozen=True)
class Fuzzed:
    """How often damaged files were refused and read, and what else came out."""

    refused: int
    read: int
    wrong: tuple[str, ...]


def fuzz(reader: Reader, folder: Path, rounds: int, seed: int = 0) -> Fuzzed:
    """Damage one file of a valid sample at a time; anything but an answer or an InputError is wrong."""
    path = reader.write(folder)
    listed = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    contents = [file.read_bytes() for file in listed]
    counts, wrong = {"refused": 0, "read": 0}, []
    for number in range(rounds):
        rng = np.random.default_rng([seed, number])
        which = int(rng.integers(len(listed)))
        listed[which].write_bytes(damaged(contents[which], rng) if contents[which] else rng.bytes(20))
        try:
            reader.read(path)
            counts["read"] += 1
        except InputError as error:
            counts["refused"] += 1
            if "\n" in str(error) or len(str(error)) > 1200:
                wrong.append(f"round {number}: message of {len(str(error))} characters")
        except Exception as error:  # exactly what is looked for
            wrong.append(f"round {number}: {type(error).__name__}: {str(error)[:200]}")
        finally:
            listed[which].write_bytes(contents[which])
    return Fuzzed(counts["refused"], counts["read"], tuple(wrong))
