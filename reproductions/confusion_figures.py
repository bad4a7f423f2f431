"""Figures 2 to 6 of "Confusing Large Models by Confusing Small Models" in our setting, beside the paper's findings.

Run: python reproductions/confusion_figures.py FOLDER [--scorer resnet18]
     python reproductions/confusion_figures.py                the page again, from the record

FOLDER holds one npz per model, named after it, as reproductions/confusion_device.py writes them (its mitigation.npz
is for objectives.py). Any program can: they hold NumPy arrays only. With N examples (training and test), S seeds, T
epochs, C classes:

    MODEL.npz        ids (N,) text, labels (N,), train (N,) bool, n_classes (), seeds (S,), epochs (T,),
                     scores (N,) float: confusion scores in bits from all seeds and epochs,
                     entropy (S+1, T, N) uint16: entropy · 65535 / log2 C, of the seeds' mean, then of each seed,
                     correct (S, N) bool: right at the last epoch, predicted (S, N): the answers,
                     accuracy (S, T, 2): on training and test examples, finished () bool, seconds (S,),
                     config () JSON, data (): name of the dataset

The model that gives the scores has all examples; the others may have those of the test set alone.

What a reader must know of these runs stands in reproductions/confusion_notes.txt.

Writes docs/results/confusion*.svg, docs/results/confusion.md and reproductions/records/confusion_figures.json.

Source: Albiero, Mehta, Evtimov, Bell, Sagun, Markosyan (2023).
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import confusion, files
from hardpan.confusion.ablation import Ablation, compare_variants, evenly_spaced
from hardpan.confusion.error_prediction import Predictors, predictors
from hardpan.confusion.transfers import (
    ConfusedModels,
    TargetErrors,
    Transfer,
    confused_models,
    target_errors_by_band,
)
from hardpan.estimates import Estimate
from hardpan.pages import charts
from hardpan.pages.confusion_charts import (
    ablation_charts,
    error_by_band_chart,
    joint_scores_chart,
    mean_confusion_chart,
    score_distribution_chart,
)
from hardpan.pages.sections import Chart

ROOT = Path(__file__).resolve().parent.parent
STEPS = 65535
PAPER_GROUPDRO = {"easy": (0.258, 0.250), "hard": (0.806, 0.819)}  # GroupDRO and ordinary training, Section 3.4
MITIGATION = "mitigation.npz"
NOT_REPRODUCED = (
    "ImageNet; targets that are better than the model that scores, which is the paper's title; 100 epochs for "
    "all models; Figure 3 on training images. They take more time on a device than these runs had."
)


@dataclasses.dataclass(frozen=True)
class Model:
    """One architecture's npz, checked."""

    name: str
    ids: NDArray[np.str_]
    labels: NDArray[np.int64]
    train: NDArray[np.bool_]
    n_classes: int
    scores: NDArray[np.float64]
    entropy: NDArray[np.float64]
    correct: NDArray[np.bool_]
    epochs: tuple[int, ...]
    finished: bool
    data: str

    @property
    def test(self) -> NDArray[np.bool_]:
        return ~self.train

    @property
    def error(self) -> float:
        return float(1 - self.correct[:, self.test].mean())

    def as_scores(self, mask: NDArray[np.bool_]) -> confusion.Scores:
        return confusion.Scores(
            ids=self.ids[mask],
            values=self.scores[mask],
            labels=self.labels[mask],
            n_classes=self.n_classes,
            seeds=tuple(range(len(self.correct))),
            epochs=self.epochs,
            source=self.name,
        )


@files.record
class ConfusionFigures:
    """What the figures show, in numbers."""

    data: str
    scorer: str
    models: Mapping[str, Mapping[str, Any]]
    train_bands: confusion.Bands
    test_bands: confusion.Bands
    transfers: tuple[Transfer, ...]
    targets: TargetErrors
    ablation: Ablation
    ablation_scorer: str
    ablation_target: str
    predictors: Predictors
    confused: ConfusedModels | None
    findings: tuple[tuple[str, str, str], ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, nargs="?", help="folder with the npz files")
    parser.add_argument(
        "--scorer", default="", help="model that gives the scores (default: resnet18, or the first)"
    )
    parser.add_argument(
        "--keep-ablation", action="store_true", help="keep Figures 5 and 6 of the present record, of a longer run"
    )
    parser.add_argument("--into", type=Path, default=ROOT, help="root under which docs/ and reproductions/ lie")
    options = parser.parse_args()
    record = options.into / "reproductions" / "records" / "confusion_figures.json"
    drawn: dict[str, Chart] = {}
    if options.folder is None:
        found = files.load(record)
        assert isinstance(found, ConfusionFigures)
        found = dataclasses.replace(found, findings=findings(found))
    else:
        found, drawn = reproduce(load_models(options.folder, options.scorer))
    if options.keep_ablation:
        found, drawn = with_earlier_ablation(found, drawn, record)
    results = options.into / "docs" / "results"
    results.mkdir(parents=True, exist_ok=True)
    for name, chart in drawn.items():
        (results / f"{name}.svg").write_text(_svg(chart), encoding="utf-8")
    about = ROOT / "reproductions" / "confusion_notes.txt"
    text = page(found, about.read_text(encoding="utf-8") if about.is_file() else "")
    (results / "confusion.md").write_text(text + "\n", encoding="utf-8")
    files.save(found, record)
    print(text)


def with_earlier_ablation(
    found: ConfusionFigures, drawn: Mapping[str, Chart], record: Path
) -> tuple[ConfusionFigures, dict[str, Chart]]:
    """Figures 5 and 6 and their numbers as they are in the record, whose run has more epochs."""
    earlier = files.load(record)
    assert isinstance(earlier, ConfusionFigures)
    kept = {name: getattr(earlier, name) for name in ("ablation", "ablation_scorer", "ablation_target")}
    found = dataclasses.replace(found, **kept)
    new = {
        name: chart for name, chart in drawn.items() if not name.startswith(("confusion_fig5", "confusion_fig6"))
    }
    return dataclasses.replace(found, findings=findings(found)), new


def load_models(folder: Path, scorer: str = "") -> dict[str, Model]:
    """Every architecture in the folder, the one that scores first; all must be of the same test examples."""
    paths = sorted(path for path in folder.glob("*.npz") if path.name != MITIGATION)
    found = {model.name: model for model in map(_read, paths)}
    if not found:
        raise SystemExit(
            f"confusion_figures: {folder} holds no npz of a model; run reproductions/confusion_device.py"
        )
    first = scorer or ("resnet18" if "resnet18" in found else next(iter(found)))
    if first not in found:
        raise SystemExit(f"confusion_figures: --scorer must be one of {', '.join(found)}; got {first}")
    ordered = [found[first], *(found[name] for name in found if name != first)]
    for model in ordered[1:]:
        if not np.array_equal(model.ids[model.test], ordered[0].ids[ordered[0].test]):
            raise SystemExit(f"confusion_figures: {model.name} and {first} are not of the same test examples")
    return {model.name: model for model in ordered}


def _read(path: Path) -> Model:
    with np.load(path, allow_pickle=False) as stored:
        classes = int(stored["n_classes"])
        return Model(
            name=path.stem,
            ids=stored["ids"],
            labels=stored["labels"].astype(np.int64),
            train=stored["train"],
            n_classes=classes,
            scores=stored["scores"].astype(np.float64),
            entropy=stored["entropy"].astype(np.float64) * math.log2(classes) / STEPS,
            correct=stored["correct"],
            epochs=tuple(int(epoch) for epoch in stored["epochs"]),
            finished=bool(stored["finished"]),
            data=Path(str(stored["data"])).stem if "data" in stored.files else "",
        )


def reproduce(models: Mapping[str, Model]) -> tuple[ConfusionFigures, dict[str, Chart]]:
    """All numbers and charts."""
    scorer = next(iter(models.values()))
    drawn: dict[str, Chart] = {}
    bands = {part: _bands(scorer, mask) for part, mask in (("train", scorer.train), ("test", scorer.test))}
    groups = {part: scorer.scores[mask] for part, mask in (("train", scorer.train), ("test", scorer.test))}
    top = math.log2(scorer.n_classes)
    drawn["confusion_fig2_left"] = score_distribution_chart(groups, top, f"Confusion scores of {scorer.name}")
    drawn["confusion_fig2_right"] = error_by_band_chart(
        {f"{part}, ρ = {item.rho.value:.2f}": item for part, item in bands.items()}, "Error by band of the score"
    )
    pairs = [
        confusion.transfer(
            scorer.as_scores(scorer.test), other.as_scores(other.test), names=(scorer.name, other.name)
        )
        for other in models.values()
        if other is not scorer
    ]
    for pair in pairs:
        drawn[f"confusion_fig3_{_file(pair.second)}"] = joint_scores_chart(pair)
    targets = target_errors_by_band(
        scorer.as_scores(scorer.test),
        {name: model.correct[:, model.test] for name, model in models.items()},
        scored_by=scorer.name,
    )
    drawn["confusion_fig4"] = error_by_band_chart(
        {f"{name}, ρ = {item.rho.value:.2f}": item for name, item in targets.targets.items()},
        f"Error of each model by band of {scorer.name}'s scores",
    )
    longest = max(models.values(), key=lambda model: len(model.epochs))
    others = [model for model in models.values() if model is not longest] or [longest]
    best = min(others, key=lambda model: model.error)
    ablation = _ablation(longest, best)
    for seeds in sorted({item.seeds for item in ablation.variants}):
        five, six = ablation_charts(ablation, seeds)
        drawn |= {f"confusion_fig5_{seeds}": five, f"confusion_fig6_{seeds}": six}
    confused = None
    if len(models) > 1:
        answers = {name: model.correct[:, model.test] for name, model in models.items()}
        confused = confused_models({name: m.scores[m.test] for name, m in models.items()}, answers)
        drawn["confusion_models"] = mean_confusion_chart(confused)
    found = ConfusionFigures(
        data=scorer.data,
        scorer=scorer.name,
        models={name: _about(model) for name, model in models.items()},
        train_bands=bands["train"],
        test_bands=bands["test"],
        # Without the histograms, which are in the figures.
        transfers=tuple(
            dataclasses.replace(pair, edges=np.zeros(0), counts=np.zeros((0, 0), dtype=np.int64)) for pair in pairs
        ),
        targets=targets,
        ablation=ablation,
        ablation_scorer=longest.name,
        ablation_target=best.name,
        predictors=_predictors(scorer),
        confused=confused,
        findings=(),
    )
    return dataclasses.replace(found, findings=findings(found)), drawn


def _bands(model: Model, mask: NDArray[np.bool_]) -> confusion.Bands:
    return confusion.bands(model.as_scores(mask), model.correct[:, mask])


def _about(model: Model) -> dict[str, Any]:
    test = model.test
    return {
        "seeds": len(model.correct),
        "epochs": len(model.epochs),
        "finished": model.finished,
        "test_error": [float(value) for value in 1 - model.correct[:, test].mean(axis=1)],
        "mean_score_test": float(model.scores[test].mean()),
        "hard_share_test": float((model.scores[test] >= math.log2(model.n_classes) / 2).mean()),
    }


def _ablation(model: Model, target: Model) -> Ablation:
    """Figures 5 and 6: the paper's shares of the epochs, from one seed and from the mean of all."""
    epochs = len(model.epochs)
    counts = sorted({max(1, round(share * epochs)) for share in (0.05, 0.1, 0.2, 0.33, 1.0)})
    values = {}
    for seeds, row in ((1, 1), (len(model.correct), 0)):
        for count in counts:
            places = evenly_spaced(range(epochs), count)
            chosen = tuple(model.epochs[place] for place in places)
            values[seeds, chosen] = model.entropy[row][list(places)][:, model.test].mean(axis=0)
    return compare_variants(
        values, n_classes=model.n_classes, correct=target.correct[:, target.test], target=target.name
    )


def _predictors(model: Model) -> Predictors:
    """The scores that the npz allows, as predictors of the first seed's errors."""
    test = model.test
    last = model.entropy[:, -1][:, test]
    known = {
        "confusion score": model.scores[test],
        "ensemble entropy": last[0],
        "single-model entropy": last[1],
        "mutual information": np.maximum(last[0] - last[1:].mean(axis=0), 0.0),
    }
    return predictors(known, model.correct[0, test], target=f"{model.name}, first seed")


def findings(found: ConfusionFigures) -> tuple[tuple[str, str, str], ...]:
    """What the paper finds, what is found here, and whether they agree: "as the paper", "not here" or "open"."""
    rows: list[tuple[str, str, str]] = []
    about = found.models[found.scorer]
    low = 1 - about["hard_share_test"]
    rows.append(
        (
            "Most examples have low scores",
            f"{100 * low:.1f} % of the test examples are in the lower half of the range",
            _verdict(low > 0.5),
        )
    )
    train, test = found.train_bands.rho, found.test_bands.rho
    rows.append(
        (
            "Score and error go together",
            f"ρ by band {_number(test)} on test, {_number(train)} on train",
            _verdict(test.low > 0, test.high < 0),
        )
    )
    rows.append(
        (
            "They do so more closely on test than on train",
            f"{test.value:.3f} against {train.value:.3f}",
            _verdict(test.low > train.high, test.high < train.low),
        )
    )
    rows += _transfer_findings(found) + _ablation_findings(found) + _model_findings(found)
    return tuple(rows)


def _transfer_findings(found: ConfusionFigures) -> list[tuple[str, str, str]]:
    rows = []
    if found.transfers:
        told = ", ".join(f"{item.second} {_number(item.tau)}" for item in found.transfers)
        clear = sum(item.tau.low > 0.3 for item in found.transfers)
        verdict = _verdict(clear > 0)
        if 0 < clear < len(found.transfers):
            verdict += f" for {clear} of {len(found.transfers)} models (τ above 0.3)"
        rows.append(("Confusion carries over to other models", f"Kendall's τ with {told}", verdict))
    family = [item for item in found.transfers if _family(item.second) == _family(found.scorer)]
    others = [item for item in found.transfers if _family(item.second) != _family(found.scorer)]
    if family and others:
        worst, best = min(family, key=lambda i: i.tau.value), max(others, key=lambda i: i.tau.value)
        rows.append(
            (
                "More so within a family than across",
                f"least of the family, by name: {worst.second} {worst.tau.value:.3f}; best other: {best.second} "
                f"{best.tau.value:.3f}",
                _verdict(worst.tau.low > best.tau.high, worst.tau.high < best.tau.low),
            )
        )
    errors = {name: item.error for name, item in found.targets.targets.items()}
    better = [item for item in found.transfers if errors[item.second].high < errors[found.scorer].low]
    if not better:
        told = f"no model here has a lower error than {found.scorer}, which gives the scores"
        rows.append(("Small models' scores hold for large models", told, "not examined here"))
    else:
        told = ", ".join(f"{item.second} {100 * item.below.value:.1f} %" for item in better)
        shares = [item.below for item in better]
        rows.append(
            (
                "Better models are less confused by most examples",
                f"below the diagonal: {told}",
                _verdict(min(item.low for item in shares) > 0.5, max(item.high for item in shares) < 0.5),
            )
        )
    return rows


def _ablation_findings(found: ConfusionFigures) -> list[tuple[str, str, str]]:
    variants = found.ablation.variants
    few, all_epochs = variants[0], max(variants, key=lambda item: (item.seeds, len(item.epochs)))
    one = max((item for item in variants if item.seeds == 1), key=lambda item: len(item.epochs))
    many_few = min((item for item in variants if item.seeds == all_epochs.seeds), key=lambda item: len(item.epochs))
    rows = [
        (
            "Fewer epochs shift scores upwards",
            f"mean {many_few.mean:.3f} bits from {len(many_few.epochs)}, "
            f"{all_epochs.mean:.3f} from {len(all_epochs.epochs)} epochs",
            _verdict(many_few.mean > all_epochs.mean),
        ),
        (
            "More seeds widen the distribution",
            f"deviation {one.deviation:.3f} with 1 seed, {all_epochs.deviation:.3f} with {all_epochs.seeds}",
            _verdict(all_epochs.deviation > one.deviation),
        ),
    ]
    if one.bands is not None and all_epochs.bands is not None and few.seeds == 1:
        a, b = one.bands.rho, all_epochs.bands.rho
        rows.append(
            (
                "More seeds bring score and error closer",
                f"ρ by band {_number(a)} with 1 seed, {_number(b)} with {all_epochs.seeds}",
                _verdict(b.low > a.high, b.high < a.low),
            )
        )
    return rows


def _model_findings(found: ConfusionFigures) -> list[tuple[str, str, str]]:
    if found.confused is None or len(found.confused.models) < 3:
        return []
    rho, count = found.confused.rho.value, len(found.confused.models)
    if count < 4 or not abs(rho) < 1:
        return []
    half = 1.959964 / math.sqrt(count - 3)  # Fisher's z: the interval is over models, on these examples
    low, high = math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half)
    about = f"{count} models (interval over models by Fisher's z)"
    told = f"ρ of mean confusion and accuracy {rho:.3f} [{low:.3f}, {high:.3f}] over {about}"
    return [("Models with higher mean confusion have lower accuracy", told, _verdict(high < 0, low > 0))]


def _verdict(same: bool, opposite: bool | None = None) -> str:
    """Agreement; where intervals decide, neither may be the case."""
    if same:
        return "as the paper"
    return "not here" if opposite is None or opposite else "not separated here"


def titles(found: ConfusionFigures) -> dict[str, str]:
    """The title of every picture."""
    named = {
        "confusion_fig2_left": f"Confusion scores of {found.scorer}",
        "confusion_fig2_right": "Error by band of the score",
    }
    for item in found.transfers:
        title = f"{item.second} against {item.first}: τ = {item.tau.value:.2f}"
        named[f"confusion_fig3_{_file(item.second)}"] = title
    named["confusion_fig4"] = f"Error of each model by band of {found.scorer}'s scores"
    for seeds in sorted({item.seeds for item in found.ablation.variants}):
        noun = f"{seeds} seed{'s' if seeds > 1 else ''}"
        named[f"confusion_fig5_{seeds}"] = f"Distribution of scores, {noun}"
        named[f"confusion_fig6_{seeds}"] = f"Error of {found.ablation_target} by band, {noun}"
    return named | ({"confusion_models": "Accuracy against mean confusion"} if found.confused else {})


def _about_target(found: ConfusionFigures) -> str:
    """What Figure 6 shows: whose error, by whose scores, and what its correlations are over."""
    bands = [item.bands for item in found.ablation.variants if item.bands is not None]
    if not bands:
        return ""
    models, examples = bands[0].models, bands[0].examples
    return (
        f"Figure 6 has the error of {found.ablation_target} ({100 * bands[0].error.value:.1f} %, mean of "
        f"{models} seeds) on {examples:,} test examples, by bands of 0.2 bits of these scores. Each ρ is over "
        "bands, with an interval over examples."
    )


def page(found: ConfusionFigures, note: str = "") -> str:
    """The result as Markdown, which is also what is printed."""
    drawn = titles(found)
    lines = [
        "# Confusion scores: Figures 2 to 7 in our setting",
        "",
        f"Made by `python reproductions/confusion_figures.py FOLDER` from runs of "
        f"`reproductions/confusion_device.py`; do not edit. The paper trains on ImageNet for 100 epochs; here "
        f"{found.data or 'the dataset'} is learnt by {', '.join(found.models)}, and the scores are "
        f"{found.scorer}'s. Intervals are 95 %. The paper's numbers are those stated in its text.",
        "",
        "The table under Models has the training time and the error of each model: where its error is far above "
        "what the architecture is known to reach, a result here is about partly trained models.",
        "",
        *([note.strip(), ""] if note else []),
        "| the paper finds | here | |",
        "| --- | --- | --- |",
        *(f"| {claim} | {told} | {verdict} |" for claim, told, verdict in found.findings),
        "",
        "## Models",
        "",
        "| model | seeds | epochs | test error | mean score, test | test examples above half the range |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, about in found.models.items():
        errors = ", ".join(f"{100 * value:.2f}" for value in about["test_error"])
        note = "" if about["finished"] else " (stopped early)"
        lines.append(
            f"| {name}{note} | {about['seeds']} | {about['epochs']} | {errors} % "
            f"| {about['mean_score_test']:.3f} | {100 * about['hard_share_test']:.2f} % |"
        )
    lines += ["", "## Distribution and error by band (Figure 2)", "", *_pictures(drawn, "confusion_fig2")]
    tenth, foretold = found.test_bands.hardest_tenth, found.predictors.rows
    lines += [
        f"By example, Pearson's ρ between score and error is {_number(found.test_bands.by_example)} on test and "
        f"{_number(found.train_bands.by_example)} on train. The most confusing tenth of the test set holds "
        f"{100 * tenth.value:.0f} % [{100 * tenth.low:.0f}, {100 * tenth.high:.0f}] of the errors.",
        "",
        "| score as a predictor of errors of the first seed | AUROC | AUPR | AURC |",
        "| --- | --- | --- | --- |",
        *(f"| {row.name} | {_number(row.auroc)} | {_number(row.aupr)} | {_number(row.aurc)} |" for row in foretold),
        "",
        "## Transfer (Figures 3 and 4)",
        "",
        *_pictures(drawn, "confusion_fig3"),
        f"| with {found.scorer} | Kendall τ | Pearson ρ | below the diagonal |",
        "| --- | --- | --- | --- |",
        *(
            f"| {item.second} | {_number(item.tau)} | {_number(item.rho)} | {_percent(item.below)} |"
            for item in found.transfers
        ),
        "",
        *_pictures(drawn, "confusion_fig4"),
        *_pictures(drawn, "confusion_models"),
        "## Seeds and epochs (Figures 5 and 6)",
        "",
        f"From the longest run, that of {found.ablation_scorer}. {_about_target(found)}",
        "",
        *_pictures(drawn, "confusion_fig5"),
        *_pictures(drawn, "confusion_fig6"),
        f"| seeds | epochs | mean score | deviation | τ with all | ρ with {found.ablation_target}'s error |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for item in found.ablation.variants:
        rho = "–" if item.bands is None else _number(item.bands.rho)
        lines.append(
            f"| {item.seeds} | {len(item.epochs)} | {item.mean:.3f} | {item.deviation:.3f} | {_number(item.tau)} "
            f"| {rho} |"
        )
    lines += ["", "## GroupDRO (Figure 7)", "", "See [GroupDRO and its baselines](objectives.md)."]
    lines += ["", "## What is not reproduced and why", "", NOT_REPRODUCED]
    return "\n".join(lines)


def _pictures(drawn: Mapping[str, str], start: str) -> list[str]:
    found = [f"![{title}]({name}.svg)" for name, title in drawn.items() if name.startswith(start)]
    return [line for item in found for line in (item, "")]


def _svg(chart: Chart) -> str:
    drawn = charts.spec(chart) | {"width": 460, "background": "white", "title": chart.title}
    svg: str = charts.svg_of_spec(drawn)
    return svg


def _family(name: str) -> str:
    return name.rstrip("0123456789").partition("-")[0].rstrip("0123456789")


def _file(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def _number(item: Estimate) -> str:
    return f"{item.value:.3f} [{item.low:.3f}, {item.high:.3f}]" if math.isfinite(item.value) else "–"


def _percent(item: Estimate) -> str:
    return f"{100 * item.value:.1f} % [{100 * item.low:.1f}, {100 * item.high:.1f}]"


def _cell(item: Estimate | None) -> str:
    return "–" if item is None else _percent(item)


def _points(item: Estimate | None) -> str:
    return "" if item is None else f"{100 * item.value:+.2f} [{100 * item.low:+.2f}, {100 * item.high:+.2f}]"


if __name__ == "__main__":
    main()
