"""Questions of the explorer over 1,280,000 examples, beside DuckDB over the same Parquet file.

Each question is asked once on a table that is already open, as a person asks it: first pages are selected, a far
page sorts the column, and later pages and filters of that order start from it. DuckDB answers the same question as
SQL.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness

PEERS = ("duckdb", "pyarrow")
ROWS = 1_280_000
PAGE = 120
QUESTIONS = {
    "order by confusion, first page": ((), "confusion", 0),
    "the same, page 5,000": ((), "confusion", 600_000),
    "confusion at least 0.9 in two classes": (
        (("confusion", "at_least", 0.9), ("label", "any_of", ["class 3", "class 4"])),
        "confusion",
        0,
    ),
    "wrong by the first model, by confusion": ((("correct: m0", "is", False),), "confusion", 0),
    "order by class": ((), "label", 0),
    "id contains 00ff": ((("id", "contains", "00ff"),), "confusion", 0),
}
SQL = {
    "order by confusion, first page": "true",
    "the same, page 5,000": "true",
    "confusion at least 0.9 in two classes": "confusion >= 0.9 and label in ('class 3', 'class 4')",
    "wrong by the first model, by confusion": 'not "correct: m0"',
    "order by class": "true",
    "id contains 00ff": "id like '%00ff%'",
}


def table(folder: Path) -> None:
    import pyarrow.parquet as pq

    from hardpan.auditing import example_table
    from hardpan.data.dataset import Dataset

    rng = np.random.default_rng(0)
    names = tuple(f"class {number}" for number in range(100))
    labels = rng.integers(0, 100, ROWS)
    dataset = Dataset("made", np.zeros((ROWS, 1)), np.array([f"{i:016x}" for i in range(ROWS)]), labels, names)
    columns: dict[str, Any] = {"confusion": rng.gamma(1, 0.3, ROWS), "p_label": rng.random(ROWS)}
    columns |= {f"correct: m{number}": rng.random(ROWS) < 0.8 for number in range(5)}
    joined = example_table.join_example_table(
        dataset, {"train": np.arange(ROWS // 2), "test": np.arange(ROWS // 2, ROWS)}, columns
    )
    pq.write_table(joined, folder / example_table.TABLE)


def ours(folder: Path) -> tuple[float, Callable[[str], list[str]]]:
    from hardpan.auditing import example_table
    from hardpan.web.explorer.query import ExampleQueries, Filter

    start = time.process_time()
    explorer = ExampleQueries(example_table.read_example_table(folder))
    opened = time.process_time() - start

    def ask(question: str) -> list[str]:
        filters, sort, offset = QUESTIONS[question]
        conditions = tuple(Filter(*item) for item in filters)
        page, _ = explorer.page(conditions, sort, descending=True, offset=offset, limit=PAGE)
        return [row["id"] for row in explorer.rows(page)]

    return opened, ask


def duckdb(folder: Path) -> tuple[float, Callable[[str], list[str]]]:
    import duckdb as peer

    start = time.process_time()
    connection = peer.connect()
    connection.execute("set threads = 1")
    connection.execute(f"create table e as select *, row_number() over () as n from '{folder}/examples.parquet'")
    opened = time.process_time() - start

    def ask(question: str) -> list[str]:
        _, sort, offset = QUESTIONS[question]
        # The explorer sorts classes by the numbers in their names; so must the question.
        by = "cast(split_part(label, ' ', 2) as int)" if sort == "label" else sort
        where = SQL[question]
        sql = f"select id from (select * from e where {where} order by {by} desc, n limit {PAGE} offset {offset})"
        return [row[0] for row in connection.execute(sql).fetchall()]

    return opened, ask


def run() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table(folder)
        (open_ours, ask_ours), (open_peer, ask_peer) = ours(folder), duckdb(folder)
        rows = [{"question": "open the table", "hardpan CPU ms": 1e3 * open_ours, "duckdb CPU ms": 1e3 * open_peer}]
        for question in QUESTIONS:
            start = time.process_time()
            mine = ask_ours(question)
            between = time.process_time()
            theirs = ask_peer(question)
            end = time.process_time()
            first, second = 1e3 * (between - start), 1e3 * (end - between)
            row: dict[str, Any] = {"question": question, "hardpan CPU ms": first, "duckdb CPU ms": second}
            row |= {"times quicker": second / first, "same rows": mine == theirs}
            rows.append(row | harness.against(first, at_most=1000, unit="CPU ms"))
    notes = [f"{ROWS:,} rows, pages of {PAGE}; one core; each question once, in this order"]
    return harness.table("Explorer: questions over 1,280,000 examples", rows, seed=0, notes=notes)
