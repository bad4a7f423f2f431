"""What the follow-up studies and the floor bench say, and their tables."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hardpan import files, formatting
from hardpan.report.base import View
from hardpan.report.generic import view
from hardpan.report.sections import (
    Aligned,
    Cell,
    Chart,
    Provenance,
    Section,
    Table,
    columns_of,
    differences,
    fields_of,
    percents,
    table_of,
)
from hardpan.studies.crossval import CrossvalStudy
from hardpan.studies.floor_bench import BenchRow, FloorBench, FloorBenchConfig, config_words
from hardpan.studies.learning_curve import LearningCurve
from hardpan.studies.partial import PartialRow, PartialStudy
from hardpan.studies.retune import RetuneStudy, Setting
from hardpan.testbed.gaps import CrossValidated
from hardpan.training import TrainConfig

MOST_ROWS = 20
_MOST_SENTENCES, _MOST_COLUMNS = 12, 7  # of a study on a terminal
_LOGARITHMIC = ("rate", "weight_decay", "clip")
_PAPER = "Recht, Roelofs, Schmidt, Shankar: Do ImageNet Classifiers Generalize to ImageNet? (2019)"

_ROLES = {"estimate": "estimate", "lower": "lower end", "upper": "ceiling"}
_BENCH_HEAD = """# Estimators of the floor on sets whose floor is known

Every number below is from

```
{command}
```

"""
_SETS = """\
The sets are drawn from problems whose Bayes error is set exactly. *two-gaussians* is two classes in two
dimensions; *ten-gaussians* ten classes in twenty; *warped* the same ten classes after a smooth invertible map,
which changes neither the floor nor the posteriors, and leaves no class Gaussian; *flow:NAME* are images drawn
from a flow at the temperature with that floor (grey values outside the range are compressed by an invertible
map). Of n examples 60 % train, 20 % validate and 20 % test; votes are {votes} per test example.

"""
_CLAIMS = """\
An estimator claims one of three things. An **estimate** holds if the floor lies in its interval; a **lower
end** if the floor lies above its lower limit; a **ceiling** if the floor lies below its upper limit. *Holds* is
the proportion of sets on which the claim is true, over all floors, {runs} draws each. *Error* is the root mean
square of value / floor − 1, in percent, the median over the floors: a bound is not meant to be near the floor,
but the nearer it is the more it says. *gaussian* corrects itself for the error of its fit (up to 512 features),
and its interval holds only where the classes are Gaussian with one covariance.
"""
_HOW_TO_ADD = """
## Add yours

A function of four arrays is enough; it also gets those of `x_validation`, `y_validation`,
`n_classes`, `votes`, `posterior`, `seed` and `confidence` that it has as keyword arguments.

```python
# mine.py
from hardpan.estimates import Estimate


def half_the_error_of_guessing(x_train, y_train, x_test, y_test):
    wrong = (y_test != y_train[0]).mean() / 2
    return Estimate(wrong, 0.0, wrong, wrong, method="a bad idea")
```

`PYTHONPATH=. hardpan floor bench --estimators neighbours,mine:half_the_error_of_guessing --out bench`
"""


def _study_view(headline: str, section: Section, method: Sequence[str], seed: int, columns: dict[str, Any]) -> View:
    tables = tuple(table for table in section.tables if len(table.columns) <= _MOST_COLUMNS)
    short = Section(section.title, section.sentences[:_MOST_SENTENCES], tables=tables, warnings=section.warnings)
    made = Provenance(
        method=tuple(method), citations=(_PAPER,), seed=seed, versions=files.versions_of("numpy", "torch")
    )
    return View(section.title, headline, (section,), provenance=made, columns=columns, terminal=(short,))


def _warnings(control: bool, config: TrainConfig, diverged: Sequence[str] = ()) -> list[str]:
    warnings = ["One training run per row: intervals are about the examples, not about repeated training."]
    if control:
        warnings.append(
            "There is no new test set: one half of the test set is called original and the other new. This is a "
            "control, in which neither a drop nor a gain is expected."
        )
    if config.epochs < 5:
        warnings.append(f"Only {config.epochs} epochs of training: accuracies are below what the models can reach.")
    if diverged:
        warnings.append(f"The loss became NaN, and the accuracy counts as 0: {'; '.join(diverged)}.")
    return warnings


@view.register
def _crossval(study: CrossvalStudy) -> View:
    rows = study.table.rows
    count = sum(row.predicted for row in rows)
    headline = (
        f"Cross-validation on {study.data} predicts the accuracy on the new test set ({study.new}) "
        f"for {count} of {len(rows)} {'model' if len(rows) == 1 else 'models'}."
    )
    splits = [(f"split {k + 1}", [row.splits[k] for row in rows]) for k in range(study.config.folds)]
    named = [("original", [row.original for row in rows]), *splits, ("new", [row.new for row in rows])]
    columns = [formatting.aligned(items, scale=100) for items in zip(*(items for _, items in named), strict=True)]
    cells = tuple(zip((name for name, _ in named), *columns, strict=True))
    section = Section(
        "Does cross-validation predict the new accuracy?",
        tuple(_crossval_sentence(row) for row in rows),
        charts=(_crossval_chart(study),),
        tables=(Table("Accuracy, %", ("test set", *(row.model for row in rows)), cells),),
        warnings=tuple(_warnings(study.control, study.config.train, study.diverged)),
        key="crossval",
    )
    method = (
        "The training set is split at random into class-balanced folds. For each fold a model is trained on the "
        "other folds and the original test set, and tested on the fold; one more model is trained on the training "
        "set and tested on the original and the new test set. Clopper–Pearson intervals.",
    )
    frame = columns_of(rows, "model", "original.value", "new.value", "predicted")
    return _study_view(headline, section, method, study.config.seed, frame)


def _crossval_sentence(row: CrossValidated) -> str:
    inside = "within their range" if row.predicted else "outside their range"
    return (
        f"{row.model}: the splits differ by {100 * row.spread:.1f} points; the new test set is "
        f"{100 * abs(row.drop):.1f} points {'below' if row.drop >= 0 else 'above'} their mean, {inside}."
    )


def _crossval_chart(study: CrossvalStudy) -> Chart:
    rows = []
    for row in study.table.rows:
        mean = float(np.mean([item.value for item in row.splits]))
        named = [("original", row.original), *((f"split {k + 1}", item) for k, item in enumerate(row.splits))]
        for name, item in [*named, ("new", row.new)]:
            ends = {"value": item.value - mean, "low": item.low - mean, "high": item.high - mean}
            role = "left out" if name == "new" else "in the fit"
            rows.append({"name": f"{row.model}, {name}", **ends, "role": role})
    return Chart(
        "deviations",
        "Accuracy minus the mean of the splits",
        tuple(rows),
        "For each model the original test set, the cross-validation splits and the new test set, as dots with "
        "intervals, relative to the mean accuracy of the splits. "
        + " ".join(map(_crossval_sentence, study.table.rows)),
        {"x_title": "accuracy minus the mean over the splits"},
    )


@view.register
def _partial(study: PartialStudy) -> View:
    rows = study.rows
    clear = sum(row.gain.low > 0 for row in rows)
    added = max(row.added for row in rows)
    headline = (
        f"Training on half of the new test set as well ({study.new}, {added:,} examples in addition to "
        f"{study.n_train:,}) clearly raises the accuracy on the other half in {clear} of {len(rows)} trials."
    )
    columns: dict[str, Cell | Aligned] = {
        "model": "model",
        "split": "split",
        "without": percents("without"),
        "with new": percents("with_new"),
        "gain": differences("gain"),
        "p (McNemar)": lambda row: float(f"{row.p:.2g}"),
    }
    if study.config.control:
        columns |= {"with original": percents("with_original"), "difference": differences("beyond")}
    chart = Chart(
        "deviations",
        "Gain from training on half of the new test set",
        tuple(
            {"name": f"{row.model}, split {row.split}", "role": "in the fit", **fields_of(row.gain)} for row in rows
        ),
        "A dot with its interval for each model and split: " + " ".join(map(_partial_sentence, rows)),
        {"x_title": "gain from half of the new set"},
    )
    section = Section(
        "Does training on the new set help?",
        tuple(map(_partial_sentence, rows)),
        charts=(chart,),
        tables=(table_of("Accuracy on the held-out half (%), gains (points)", rows, columns),),
        warnings=tuple(_warnings(study.control, study.config.train, study.diverged)),
        key="partial",
    )
    method = (
        "A random, class-balanced half of the new test set is added to the training set; the model trained on that "
        "and the model trained without it are tested on the other half, on the same examples (Agresti–Min "
        "intervals, exact McNemar test). The control adds as many examples of the original test set instead.",
    )
    frame = columns_of(rows, "model", "split", "without.value", "with_new.value", "gain.value", "p")
    return _study_view(headline, section, method, study.config.seed, frame)


def _partial_sentence(row: PartialRow) -> str:
    text = (
        f"{row.model}, split {row.split}: {formatting.estimate(row.with_new)} with the half, "
        f"{formatting.estimate(row.without)} without, a change of {formatting.signed(row.gain)}."
    )
    if row.beyond is not None:
        text += f" Compared with as many original examples, the new ones add {formatting.signed(row.beyond)}."
    return text


@view.register
def _retune(study: RetuneStudy) -> View:
    best, start = study.best, study.start
    comparisons = formatting.counted(len(study.settings) - 1, "comparison")
    headline = (
        f"Of {formatting.counted(len(study.settings), 'setting')} of {study.config.train.model} on {study.data}, "
        f"{study.better} {'is' if study.better == 1 else 'are'} better than the starting point on the new test set "
        f"({study.new}) after Holm's correction over {comparisons}."
    )
    sentences = [
        f"The starting point ({_values(start)}) has {formatting.estimate(start.new)} there and the best on the "
        f"{study.config.choose} set ({_values(best)}) {formatting.estimate(best.new)}: "
        f"{formatting.signed(best.gain)}.",
        "Evaluated on examples that did not choose it, the best setting gains "
        f"{formatting.signed(study.fair_gain)}.",
    ]
    if study.extended:
        added = ", ".join(f"{_words(name)} {value:g}" for name, value in study.extended)
        sentences.append(f"The best was at an end of its range, so the grid was extended by {added}.")
    if not study.at_edge:
        sentences.append("The best setting is inside the range of every setting of the grid.")
    warnings = _warnings(study.control, study.config.train)
    if not study.config.grid and "dropout" not in study.grid:
        warnings.append(
            f"{study.config.train.model} has no dropout scale: the grid varies learning rate and weight decay only."
        )
    warnings += [f"{name} is best at {value:g}, the end of its possible range." for name, value in study.at_bound]
    if study.at_edge:
        warnings.append(f"The best setting is still at an end of the range of {', '.join(study.at_edge)}.")
    diverged = sum(item.diverged for item in study.settings)
    if diverged:
        warnings.append(f"{formatting.counted(diverged, 'setting')} diverged; their accuracy counts as 0.")
    section = Section(
        "Can other settings recover the drop?",
        tuple(sentences),
        charts=tuple(_retune_chart(study, name) for name, values in study.grid.items() if len(values) > 1),
        tables=(_retune_table(study),),
        warnings=tuple(warnings),
        key="retune",
    )
    method = (
        "Every combination of the grid is trained once on the training set. If the most accurate one has a value "
        "at an end of its range, the range is extended and the new combinations are trained, until the best is "
        "inside.",
        "Gains over the starting point are on the same examples: Agresti–Min intervals, exact McNemar p-values, "
        "Holm's correction. For the fair gain, each random half of the new set chooses a setting and the other "
        "half evaluates it.",
    )
    frame = {name: [item.values[name] for item in study.settings] for name in study.grid}
    frame |= columns_of(study.settings, "original.value", "new.value", "gain.value", "p_holm")
    return _study_view(headline, section, method, study.config.seed, frame)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _values(setting: Setting) -> str:
    return ", ".join(f"{_words(name)} {value:g}" for name, value in setting.values.items())


def _retune_chart(study: RetuneStudy, name: str) -> Chart:
    words = _words(name)
    rows = []
    for series in ("original", "new"):
        for value in study.grid[name]:
            best = max(
                (getattr(item, series) for item in study.settings if item.values[name] == value),
                key=lambda item: item.value,
            )
            rows.append({"series": series, "x": value, **fields_of(best, "y")})
    return Chart(
        "lines",
        f"Best accuracy at each {words}",
        tuple(rows),
        f"Two lines, original and new test set: the highest accuracy over the other settings at each {words}, from "
        f"{study.grid[name][0]:g} to {study.grid[name][-1]:g}; the best setting has {study.best.values[name]:g}.",
        {
            "x_title": words,
            "y_title": "accuracy",
            "log_x": name in _LOGARITHMIC,
            "zero": False,
            "marks": ({"x": study.best.values[name], "label": "best"},),
        },
    )


def _retune_table(study: RetuneStudy) -> Table:
    best = study.settings[:MOST_ROWS]
    title = f"The {len(best)} best of {len(study.settings)} settings" if len(best) > 1 else "The setting"
    settings: dict[str, Cell] = {_words(name): _setting(name) for name in study.grid}
    return table_of(
        f"{title}: accuracy (%), gain over the start (points), Holm's p",
        best,
        {
            **settings,
            "original": lambda item: f"{100 * item.original.value:.1f}",
            "new": percents("new"),
            "gain": differences("gain"),
            "p": lambda item: float(f"{item.p_holm:.2g}"),
        },
    )


def _setting(name: str) -> Callable[[Setting], float]:
    return lambda item: item.values[name]


@view.register
def _learning_curve(curve: LearningCurve) -> View:
    floor = curve.floor.value
    best = min(curve.points, key=lambda point: point.excess.value)
    headline = (
        f"The lowest possible error on these data is {formatting.percent(floor)}. {best.model} with {best.n:,} "
        f"examples is closest: {formatting.plain(best.excess, scale=100, unit='points')} above it."
    )
    sentences = tuple(
        f"{law.model}: with ten times the data, {100 * 10**-law.exponent.value:.0f} % "
        f"({100 * 10**-law.exponent.high:.0f}–{100 * 10**-law.exponent.low:.0f} %) of the excess error remains."
        for law in curve.laws
    )
    excesses = [(p.model, p.n, formatting.plain(p.excess, scale=100, unit="points")) for p in curve.points]
    charts = (
        Chart(
            "lines",
            "Error above the exact Bayes error against training examples",
            tuple({"series": p.model, "x": p.n, **fields_of(p.excess, "y")} for p in curve.points),
            "; ".join(f"{model} at {n:,}: {excess}" for model, n, excess in excesses),
            {"x_title": "training examples", "y_title": "error above the Bayes error", "log_x": True, "log": True},
        ),
        Chart(
            "lines",
            "Error and Bayes error against training examples",
            tuple({"series": p.model, "x": p.n, "y": p.error.value} for p in curve.points)
            + tuple({"series": "Bayes error", "x": n, "y": floor} for n in sorted({p.n for p in curve.points})),
            f"Errors of every architecture over the Bayes error of {100 * floor:.3g} %.",
            {"x_title": "training examples", "y_title": "error", "log_x": True},
        ),
    )
    rows = [
        (model, n, p.error, excess, p.epochs) for (model, n, excess), p in zip(excesses, curve.points, strict=True)
    ]
    laws = [(law.model, formatting.plain(law.exponent), law.amplitude, law.r2) for law in curve.laws]
    tables = [
        Table("Trainings", ("architecture", "examples", "error", "above the Bayes error", "epochs"), tuple(rows))
    ]
    if laws:
        tables.append(
            Table("Power laws, excess = a·n⁻ᵇ", ("architecture", "exponent b", "amplitude a", "R²"), tuple(laws))
        )
    section = Section(
        "Learning curves", sentences, {"Bayes error": curve.floor}, charts, tuple(tables), key="curves"
    )
    made = Provenance(
        seed=curve.config.seed,
        versions=files.versions_of("numpy", "torch"),
        hashes={"Flow, sha256": curve.flow_sha256},
    )
    frame = columns_of(curve.points, "model", "n", "error.value", "excess.value", "excess.stderr")
    return View(f"Learning curves on {curve.flow}", headline, (section,), provenance=made, columns=frame)


@view.register
def _floor_bench(bench: FloorBench) -> View:
    runs = sum(row.runs for row in bench.rows)
    hold = sum(row.holds * row.runs for row in bench.rows if row.runs)
    headline = f"No estimator gave a number on the {_set_count(bench)}."
    if runs:
        headline = (
            f"{formatting.counted(len(bench.config.estimators), 'estimator')} on {_set_count(bench)}: "
            f"{100 * hold / runs:.0f} % of the claims hold."
        )
    failed = {row.estimator: row.failed for row in bench.rows if row.failed}
    sections = tuple(
        Section(
            source,
            charts=_bench_charts(bench, source),
            tables=_bench_tables(bench, source),
            warnings=tuple(f"{name}: {reason}." for name, reason in failed.items()) if number == 0 else (),
            key=f"set-{number}",
        )
        for number, source in enumerate(bench.config.sources)
    )
    names = ("source", "floor", "n", "estimator", "role", "mean", "bias", "error", "holds", "seconds", "runs")
    made = Provenance(
        method=tuple(" ".join(text.replace("*", "").split()) for text in _explanations(bench.config)),
        seed=bench.config.seed,
        versions=files.versions_of("numpy", "scipy", "scikit-learn"),
    )
    return View(
        "Estimators of the floor on sets whose floor is known",
        headline,
        sections,
        provenance=made,
        columns=columns_of(bench.rows, *names),
        downloads={"table.md": bench_markdown(bench)},
    )


def _bench_charts(bench: FloorBench, source: str) -> tuple[Chart, ...]:
    """Mean value of each number against the floor, at the largest size; one floor gives no line."""
    n = max(bench.config.sizes)
    numbers_of = [row for row in bench.rows if row.source == source and row.n == n and row.runs]
    if len({row.floor for row in numbers_of}) < 2:
        return ()
    points = [{"series": row.estimator, "x": row.floor, "y": row.mean} for row in numbers_of]
    ends = sorted({row.floor for row in numbers_of})
    points += [{"series": "the floor", "x": floor, "y": floor} for floor in (ends[0], ends[-1])]
    words = f"Mean values with {n:,} examples against the exact floor, from {ends[0]:g} to {ends[-1]:g}."
    options = {"x_title": "exact floor", "y_title": "mean value"}
    return (Chart("lines", f"Mean values with {n:,} examples", tuple(points), words, options),)


def _set_count(bench: FloorBench) -> str:
    config = bench.config
    count = len(config.sources) * len(config.floors) * len(config.sizes) * config.runs
    return f"{formatting.counted(count, 'set')} of known floor"


def bench_markdown(bench: FloorBench) -> str:
    """Give the results as Markdown: by source, what each estimator says at each floor, and how it improves."""
    command = shlex.join(["hardpan", "floor", "bench", *config_words(bench.config)])
    parts = [_BENCH_HEAD.format(command=command), *_explanations(bench.config)]
    for source in bench.config.sources:
        parts.append(f"\n## {source}\n{_which_flow(source)}")
        for table in _bench_tables(bench, source):
            lines = (table.columns, ["---"] * len(table.columns), *table.rows)
            parts.append(f"\n{table.title}.\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
    parts.append(_HOW_TO_ADD)
    return "".join(parts)


def _explanations(config: FloorBenchConfig) -> tuple[str, str]:
    return _SETS.format(votes=config.votes), _CLAIMS.format(runs=config.runs)


def _which_flow(source: str) -> str:
    """Which weights a source draws from: a flow of the same name may be fitted again."""
    if not source.startswith("flow:"):
        return ""
    from hardpan.flows import weights_hash  # torch: only where a flow is a source

    return f"\nThe flow's weights have the sha256 `{weights_hash(source.removeprefix('flow:'))[:16]}…`.\n"


def _bench_tables(bench: FloorBench, source: str) -> tuple[Table, ...]:
    sizes, largest = bench.config.sizes, max(bench.config.sizes)
    floors = (formatting.percent(floor) for floor in bench.config.floors)
    rows = []
    for group in _grouped(bench, source, largest):
        values = [formatting.percent(row.mean, max(row.error, row.mean / 30)) if row.runs else "–" for row in group]
        seconds = f"{np.median([row.seconds for row in group]):.2g}"
        rows.append((group[0].estimator, _ROLES.get(group[0].role, group[0].role), *values, seconds))
    title = f"Mean value with {largest:,} examples; the column title is the floor"
    first = Table(title, ("estimator", "claims to be", *floors, "seconds"), tuple(rows))
    if len(sizes) == 1:
        return (first,)
    by_size = zip(*(_grouped(bench, source, n) for n in sizes), strict=True)
    lines = tuple((groups[0][0].estimator, *map(_error, groups), *map(_holds, groups)) for groups in by_size)
    columns = ("estimator", *(f"error, {n:,}" for n in sizes), *(f"holds, {n:,}" for n in sizes))
    return first, Table("Error and proportion of claims that hold, by number of examples", columns, lines)


def _grouped(bench: FloorBench, source: str, n: int) -> list[list[BenchRow]]:
    groups: dict[str, list[BenchRow]] = {}
    for row in bench.rows:
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
