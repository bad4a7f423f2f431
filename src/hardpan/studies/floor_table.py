"""The bench of floor estimators as tables for a person."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

import numpy as np

from hardpan import numbers
from hardpan.studies.floor_bench import BenchRow, FloorBench, config_words

_ROLES = {"estimate": "estimate", "lower": "lower end", "upper": "ceiling"}
_INTRODUCTION = """# Estimators of the floor on sets whose floor is known

Every number below is from

```
{command}
```

and can be checked: the sets are drawn from problems whose Bayes error is set exactly. *two-gaussians* is two
classes in two dimensions; *ten-gaussians* ten classes in twenty; *warped* the same ten classes after a smooth
invertible map, which leaves floor and posteriors as they are and nothing Gaussian; *flow:NAME* are images drawn
from a flow at the temperature with that floor (grey values outside the range are pressed together, which is an
invertible map, too). Of n examples 60 % train, 20 % validate and 20 % test; votes are {votes} a test example.

An estimator claims one of three things. An **estimate** holds if the floor lies in its interval; a **lower end** if
the floor lies above its lower limit; a **ceiling** if the floor lies below its upper limit. *Holds* is the share of
sets on which the claim is true, over all floors, {runs} draws each. *Error* is the root mean square of
value / floor − 1, in percent, the median over the floors: a bound is not meant to be near the floor, but the nearer
it is the more it says. *gaussian* corrects itself for the error of its fit (up to 512 features), and its interval
holds only where the classes are Gaussian with one covariance.
"""
_HOW_TO_ADD = """
## Add yours

A function of four arrays is enough; anything else it asks for by keyword (`x_validation`, `y_validation`,
`n_classes`, `votes`, `posterior`, `seed`, `confidence`) is given to it.

```python
# mine.py
from hardpan.records import Estimate


def half_the_error_of_guessing(x_train, y_train, x_test, y_test):
    wrong = (y_test != y_train[0]).mean() / 2
    return Estimate(wrong, 0.0, wrong, wrong, method="a bad idea")
```

`PYTHONPATH=. hardpan floor bench --estimators neighbours,mine:half_the_error_of_guessing --out bench`
"""


def bench_markdown(found: FloorBench) -> str:
    """Give the results as Markdown: by source, what each estimator says at each floor, and how it improves."""
    command = shlex.join(["hardpan", "floor", "bench", *config_words(found.config)])
    parts = [_INTRODUCTION.format(command=command, runs=found.config.runs, votes=found.config.votes)]
    for source in found.config.sources:
        parts.append(f"\n## {source}\n{_which_flow(source)}")
        largest = max(found.config.sizes)
        parts.append(f"\nMean value with {largest:,} examples; the floor is at the head of the column.\n\n")
        parts.append(_by_floor(found, source, largest))
        if len(found.config.sizes) > 1:
            parts.append("\nError and share of claims that hold, by number of examples.\n\n")
            parts.append(_by_size(found, source))
    parts.append(_HOW_TO_ADD)
    return "".join(parts)


def _which_flow(source: str) -> str:
    """Which weights a source draws from: a flow of the same name may be fitted again."""
    if not source.startswith("flow:"):
        return ""
    from hardpan.flows import weights_hash  # torch: only where a flow is a source

    return f"\nThe flow's weights have the sha256 `{weights_hash(source.removeprefix('flow:'))[:16]}…`.\n"


def _by_floor(found: FloorBench, source: str, n: int) -> str:
    head = ["estimator", "claims to be", *(numbers.percent(floor) for floor in found.config.floors), "seconds"]
    lines = []
    for rows in _grouped(found, source, n):
        values = [numbers.percent(row.mean, max(row.error, row.mean / 30)) if row.runs else "–" for row in rows]
        seconds = f"{np.median([row.seconds for row in rows]):.2g}"
        lines.append([rows[0].estimator, _ROLES.get(rows[0].role, rows[0].role), *values, seconds])
    return _table(head, lines)


def _by_size(found: FloorBench, source: str) -> str:
    sizes = found.config.sizes
    head = ["estimator", *(f"error, {n:,}" for n in sizes), *(f"holds, {n:,}" for n in sizes)]
    by_size = [_grouped(found, source, n) for n in sizes]
    lines = [
        [groups[0][0].estimator, *map(_error, groups), *map(_holds, groups)]
        for groups in zip(*by_size, strict=True)
    ]
    return _table(head, lines)


def _grouped(found: FloorBench, source: str, n: int) -> list[list[BenchRow]]:
    groups: dict[str, list[BenchRow]] = {}
    for row in found.rows:
        if row.source == source and row.n == n:
            groups.setdefault(row.estimator, []).append(row)
    return list(groups.values())


def _error(rows: Sequence[BenchRow]) -> str:
    values = [row.relative for row in rows if math.isfinite(row.relative)]
    if not values:
        return "–"
    middle = 100 * float(np.median(values))
    return f"{float(f'{middle:.2g}'):,.{0 if middle >= 9.5 else 1}f} %"


def _holds(rows: Sequence[BenchRow]) -> str:
    runs = sum(row.runs for row in rows)
    return f"{sum(row.holds * row.runs for row in rows if row.runs) / runs:.2f}" if runs else "–"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    text = [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * len(head))} |"]
    text += [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join(text) + "\n"
