"""What the follow-up studies say, and their tables."""

from __future__ import annotations

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
from hardpan.studies.learning_curve import LearningCurve
from hardpan.studies.partial import PartialRow, PartialStudy
from hardpan.studies.retune import RetuneStudy, Setting
from hardpan.testbed.gaps import CrossValidated
from hardpan.training import TrainConfig

MOST_ROWS = 20
_MOST_SENTENCES, _MOST_COLUMNS = 12, 7  # of a study on a terminal
_LOGARITHMIC = ("rate", "weight_decay", "clip")
_PAPER = "Recht, Roelofs, Schmidt, Shankar: Do ImageNet Classifiers Generalize to ImageNet? (2019)"


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
