"""One small testbed, written in every form that people keep theirs in."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

MODELS = ["alpha", "Beta-2", "gamma"]
RNG = np.random.default_rng(0)
LABELS = {"original": RNG.permutation(np.arange(300) % 5), "new": RNG.permutation(np.arange(120) % 5)}


def make(labels: np.ndarray) -> np.ndarray:
    """Three guesses an example for three models, the right one mostly first."""
    said = np.empty((3, len(labels), 3), dtype=np.int64)
    for row, accuracy in enumerate((0.9, 0.8, 0.7)):
        right = RNG.random(len(labels)) < accuracy
        said[row] = (labels[:, None] + np.where(right, 0, 1)[:, None] + np.arange(3)) % 5
    return said


GUESSES = {name: make(labels) for name, labels in LABELS.items()}
CORRECT = {name: (GUESSES[name][:, :, 0] == LABELS[name]).sum(axis=1) for name in LABELS}


def write_csv(path: Path, header: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def counts_rows() -> list[dict[str, object]]:
    return [
        {
            "model": name,
            "original_correct": int(CORRECT["original"][i]),
            "original_total": 300,
            "new_correct": int(CORRECT["new"][i]),
            "new_total": 120,
        }
        for i, name in enumerate(MODELS)
    ]


def counts_csv(folder: Path) -> tuple[Path, ...]:
    rows = counts_rows()
    return (write_csv(folder / "counts.csv", list(rows[0]), [list(row.values()) for row in rows]),)


def counts_semicolons(folder: Path) -> tuple[Path, ...]:
    path = folder / "counts.csv"
    rows = counts_rows()
    lines = [";".join(map(str, rows[0])).replace("model", "Model"), *(";".join(map(str, r.values())) for r in rows)]
    path.write_text("\ufeff" + "\r\n".join(lines) + "\r\n", encoding="utf-8")
    return (path,)


def counts_json(folder: Path) -> tuple[Path, ...]:
    path = folder / "counts.json"
    path.write_text(json.dumps(counts_rows()))
    return (path,)


def counts_parquet(folder: Path) -> tuple[Path, ...]:
    from pyarrow import Table, parquet

    parquet.write_table(Table.from_pylist(counts_rows()), folder / "counts.parquet")
    return (folder / "counts.parquet",)


def npz_right_or_wrong(folder: Path) -> tuple[Path, ...]:
    arrays = {f"correct_{name}": (GUESSES[name][:, :, 0] == LABELS[name]) for name in LABELS}
    np.savez(folder / "right.npz", models=np.array(MODELS), **arrays)
    return (folder / "right.npz",)


def parquet_wide(folder: Path) -> tuple[Path, ...]:
    from pyarrow import Table, parquet

    paths = []
    for name in LABELS:
        columns = {"label": LABELS[name]} | {model: GUESSES[name][row, :, 0] for row, model in enumerate(MODELS)}
        paths.append(folder / f"{name}.parquet")
        parquet.write_table(Table.from_pydict(columns), paths[-1])
    return tuple(paths)


def long_rows() -> list[list[object]]:
    return [
        [model, name, i, int(LABELS[name][i]), int(GUESSES[name][row, i, 0])]
        for name in LABELS
        for row, model in enumerate(MODELS)
        for i in np.random.default_rng(row).permutation(len(LABELS[name])).tolist()
    ]


def csv_long(folder: Path) -> tuple[Path, ...]:
    return (write_csv(folder / "long.csv", ["model", "set", "id", "label", "prediction"], long_rows()),)


def csv_wide(folder: Path) -> tuple[Path, ...]:
    rows = [
        [name, int(LABELS[name][i]), *GUESSES[name][:, i, 0].tolist()]
        for name in LABELS
        for i in range(len(LABELS[name]))
    ]
    return (write_csv(folder / "wide.csv", ["set", "label", *MODELS], rows),)


def csv_names_instead_of_numbers(folder: Path) -> tuple[Path, ...]:
    words = ["cat", "dog", "eel", "fox", "gnu"]
    rows = [
        [name, words[LABELS[name][i]], *(words[k] for k in GUESSES[name][:, i, 0])]
        for name in LABELS
        for i in range(len(LABELS[name]))
    ]
    return (write_csv(folder / "names.csv", ["split", "target", *MODELS], rows),)


FORMS: list[Callable[[Path], tuple[Path, ...]]] = [
    counts_csv,
    counts_semicolons,
    counts_json,
    counts_parquet,
    npz_right_or_wrong,
    parquet_wide,
    csv_long,
    csv_wide,
    csv_names_instead_of_numbers,
]
