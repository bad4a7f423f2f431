"""CIFAR-10 against CIFAR-10.1 with the released predictions of 30 models, beside the rows of the paper.

Run: python reproductions/replication_cifar.py PREDICTIONS.npz

PREDICTIONS.npz holds ``models``, ``predictions_{original,v4,v6}`` and ``labels_{original,v4,v6}``, from the public
release of the paper's authors (github.com/modestyachts/CIFAR-10.1); it is not part of this repository.
Writes reproductions/records/replication_cifar.json, docs/results/replication_cifar.md and .svg.

Source: Recht, Roelofs, Schmidt, Shankar: Do ImageNet Classifiers Generalize to ImageNet? (2019), Table 1 and
section 3.3.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from hardpan import Outcomes, files, testbed
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import read_npz
from hardpan.pages import charts
from hardpan.pages.testbed import comparison_section
from hardpan.testbed.sets import TwoSets

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = "alexnet_tf_ben"  # 82.0 %: the paper's models begin at 83 %, so this one is not among them


@dataclasses.dataclass(frozen=True)
class PaperRow:
    """A row of Table 1: percent, as printed."""

    name: str
    released: str
    original: tuple[float, float, float]
    new: tuple[float, float, float]
    gap: float


TABLE_1 = (
    PaperRow(
        "shake_shake_64d_cutout", "shake_shake_26_2x64d_SSI_cutout16", (97.1, 96.8, 97.4), (93.0, 91.8, 94.1), 4.1
    ),
    PaperRow("wide_resnet_28_10", "wrn_28_10", (95.9, 95.5, 96.3), (89.7, 88.3, 91.0), 6.2),
    PaperRow("resnet_basic_110", "resnet_basic_110", (93.5, 93.0, 93.9), (85.2, 83.5, 86.7), 8.3),
    PaperRow("vgg_15_BN_64", "vgg_15_BN_64", (93.0, 92.5, 93.5), (84.9, 83.2, 86.4), 8.1),
    PaperRow("cudaconvnet", "cudaconvnet", (88.5, 87.9, 89.2), (77.5, 75.7, 79.3), 11.0),
    PaperRow("random_features_256k_aug", "random_features_256k_aug", (85.6, 84.9, 86.3), (73.1, 71.1, 75.1), 12.5),
)
NOT_RELEASED = ("autoaug_pyramid_net_tf", 98.4, 95.5)
PAPER_SLOPE = (1.69, 1.63, 1.76)
PAPER_OFFSET = (-72.7, -78.6, -67.5)
PAPER_MODELS = 34
SAMPLED = "all 30, examples resampled too"
PRINTED = ("accuracy", "lower bound", "upper bound")


@files.record
class Reproduction:
    """What the script found: the rows beside the paper's, the lines, and the differences in words."""

    rows: tuple[dict[str, Any], ...]
    differences: tuple[str, ...]
    lines: tuple[dict[str, Any], ...]
    kendall: Estimate
    drop_low: float
    drop_high: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("predictions", type=Path, help="predictions.npz of the release")
    parser.add_argument("--bootstrap", type=int, default=100_000, help="resamples, as the paper: 100,000")
    arguments = parser.parse_args()
    try:
        stored = read_npz(arguments.predictions)
        original = outcomes_of(stored, "original")
        sets = {new: testbed.two_sets(original, outcomes_of(stored, new)) for new in ("v4", "v6")}
    except InputError as error:
        raise SystemExit(f"replication_cifar: {error}") from error
    # As the paper: resampling models, the test sets as they are.
    everything = testbed.compare(sets["v4"], bootstrap=arguments.bootstrap, resample="models")
    rows, differences = beside_the_paper(everything)
    lines = fits(sets, everything, arguments.bootstrap)
    gaps = [row.gap.value for row in everything.rows]
    result = Reproduction(rows, differences, lines, everything.kendall, min(gaps), max(gaps))
    text = page(result)
    print(text)
    files.save(result, ROOT / "reproductions" / "records" / "replication_cifar.json")
    (ROOT / "docs" / "results" / "replication_cifar.md").write_text(text + "\n", encoding="utf-8")
    chart = comparison_section(everything, new="v4").charts[0]
    picture = charts.svg_of_spec(charts.spec(chart) | {"width": 560, "background": "white"})
    (ROOT / "docs" / "results" / "replication_cifar.svg").write_text(picture, encoding="utf-8")


def outcomes_of(stored: dict[str, Any], name: str) -> Outcomes:
    """Which model is right on which example of one test set."""
    right = stored[f"predictions_{name}"] == stored[f"labels_{name}"]
    return Outcomes.from_arrays(right, models=stored["models"].tolist())


def beside_the_paper(report: testbed.Comparison) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """Our rows for the models of Table 1, and every printed digit that differs."""
    rows, differences = [], []
    for theirs in TABLE_1:
        row = report.row(theirs.released)
        exact = {
            side: [100 * value for value in (item.value, item.low, item.high)]
            for side, item in (("original", row.original), ("new", row.new))
        }
        ours = {side: tuple(round(value, 1) for value in values) for side, values in exact.items()}
        for side, printed in (("original", theirs.original), ("new", theirs.new)):
            for what, value, theirs_value in zip(PRINTED, exact[side], printed, strict=True):
                if round(value, 1) != theirs_value:
                    place = f"{theirs.name}: {what} on the {side} set"
                    differences.append(
                        f"{place} is {value:.1f} here ({value:.4f}), {theirs_value:.1f} in the paper"
                    )
        # The paper subtracts before it rounds, as we do.
        gap = round(100 * row.gap.value, 1)
        if gap != theirs.gap:
            differences.append(f"{theirs.name}: gap is {gap:.1f} here, {theirs.gap:.1f} in the paper")
        rows.append({"model": theirs.name, **ours, "paper_original": theirs.original, "paper_new": theirs.new})
        rows[-1] |= {"gap": gap, "paper_gap": theirs.gap}
    return tuple(rows), tuple(differences)


def fits(sets: dict[str, TwoSets], report: testbed.Comparison, bootstrap: int) -> tuple[dict[str, Any], ...]:
    """Lines over all released models, without the one outside the paper's range, and with the paper's best row."""
    found = [("all 30, v4", report.fit), ("all 30, v4", report.other_fit)]
    for new in ("v4", "v6"):
        for scale in ("linear", "probit"):
            fit = testbed.compare(
                sets[new], exclude=(OUTSIDE,), scale=scale, bootstrap=bootstrap, resample="models"
            ).fit
            found.append((f"29 (without {OUTSIDE}), {new}", fit))
    for scale in ("linear", "probit"):
        fit = testbed.compare(sets["v4"], scale=scale, bootstrap=bootstrap, resample="both").fit
        found.append((f"{SAMPLED}, v4", fit))
    inside = [row for row in report.rows if row.model != OUTSIDE]
    original = [row.original.value for row in inside] + [NOT_RELEASED[1] / 100]
    new_accuracy = [row.new.value for row in inside] + [NOT_RELEASED[2] / 100]
    with_best = testbed.fit_line(np.array(original), np.array(new_accuracy), bootstrap=bootstrap)
    found.append((f"29 and the paper's {NOT_RELEASED[0]} row, v4", with_best))
    return tuple(
        {
            "models": name,
            "scale": fit.scale,
            "n": fit.n,
            "slope": (fit.slope.value, fit.slope.low, fit.slope.high),
            "offset": (fit.offset.value, fit.offset.low, fit.offset.high),
            "r2": fit.r2,
        }
        for name, fit in found
    )


def page(result: Reproduction) -> str:
    """The result as Markdown, which is also what is printed."""
    lines = [
        "# CIFAR-10 and CIFAR-10.1: thirty released models",
        "",
        "Made by `python reproductions/replication_cifar.py PREDICTIONS.npz`; do not edit. The predictions are "
        "those that the paper's authors released (30 models; original test set, new sets v4 and v6). The paper's "
        "numbers are from Table 1 and section 3.3 of Recht et al. (2019); it used v4.",
        "",
        "![New against original accuracy](replication_cifar.svg)",
        "",
        "## Rows of Table 1",
        "",
        "| model | original, here | original, paper | new, here | new, paper | gap, here | gap, paper |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in result.rows:
        cells = [_interval(row[key]) for key in ("original", "paper_original", "new", "paper_new")]
        lines.append(f"| {row['model']} | {' | '.join(cells)} | {row['gap']:.1f} | {row['paper_gap']:.1f} |")
    lines += [
        "",
        f"{NOT_RELEASED[0]} ({NOT_RELEASED[1]} and {NOT_RELEASED[2]} in the paper) is not among the released "
        "models. Ranks are not compared: the paper ranks 34 models, the release holds 30.",
        "",
        "Printed digits that differ: " + ("; ".join(result.differences) if result.differences else "none") + ".",
        "",
        f"The drops range from {100 * result.drop_low:.1f} to {100 * result.drop_high:.1f} points (the paper says "
        f"3 to 15). Kendall's τ between the two orders is {result.kendall.value:.2f} "
        f"[{result.kendall.low:.2f}, {result.kendall.high:.2f}] (jackknife over models).",
        "",
        "## Lines",
        "",
        "| models | scale | slope | offset | r² |",
        "| --- | --- | --- | --- | --- |",
    ]
    for line in result.lines:
        lines.append(
            f"| {line['models']} | {line['scale']} | {_slope(line)} | {_offset(line)} | {line['r2']:.3f} |"
        )
    slope, offset = PAPER_SLOPE, PAPER_OFFSET
    lines.append(
        f"| the paper, {PAPER_MODELS} models | linear | {slope[0]:.2f} [{slope[1]:.2f}, {slope[2]:.2f}] | "
        f"{offset[0]:.1f} [{offset[1]:.1f}, {offset[2]:.1f}] points | |"
    )
    lines += [
        "",
        "Intervals of lines resample models and keep both test sets as they are, as the paper's, except in the "
        "rows that say that examples are resampled too. Only those are about other test sets.",
    ]
    return "\n".join([*lines, "", *_why(result)])


def _why(result: Reproduction) -> list[str]:
    first = {(line["models"], line["scale"]): line["slope"] for line in result.lines}
    every = first["all 30, v4", "linear"][0]
    inside = first[f"29 (without {OUTSIDE}), v4", "linear"]
    holds = "holds" if inside[1] <= PAPER_SLOPE[0] <= inside[2] else "does not hold"
    best = first[f"29 and the paper's {NOT_RELEASED[0]} row, v4", "linear"][0]
    probit, sampled = first["all 30, v4", "probit"], first[f"{SAMPLED}, v4", "probit"]
    return [
        f"## Why {every:.2f} and not {PAPER_SLOPE[0]}",
        "",
        f"The models differ. `{OUTSIDE}` is right on 82.0 % of the original set, below the 83 to 98 % that the "
        f"paper gives for its models, and flattens the line: without it the slope is {inside[0]:.2f}. The paper "
        "also has five AutoAugment models at the upper end whose predictions were not released; with the one of "
        f"them that Table 1 prints the slope is {best:.2f}. The interval of the 29 models {holds} the "
        "paper's slope.",
        "",
        f"On the probit scale the slope is {_slope({'slope': probit})} if models are resampled and both test "
        f"sets stay as they are, and {_slope({'slope': sampled})} if the examples are resampled, too. The latter "
        f"interval {'contains' if sampled[1] <= 1 <= sampled[2] else 'excludes'} 1, the slope of two sets whose "
        "difficulty has the same spread, so "
        + ("no" if sampled[1] <= 1 <= sampled[2] else "a")
        + " difference of spread is shown. A slope above 1 on the linear scale and below 1 on the probit scale "
        "describe the same points.",
        "",
        "## What is not reproduced and why",
        "",
        "The ImageNet half of Table 1 and Figure 1, top-5 accuracies, and the ranks among 34 models: their "
        "predictions are not part of this release. The follow-up experiments that train on CIFAR-10 "
        "(cross-validation, re-tuning, the discriminator): these runs had no time for them on a device.",
    ]


def _interval(values: tuple[float, float, float]) -> str:
    return f"{values[0]:.1f} [{values[1]:.1f}, {values[2]:.1f}]"


def _slope(line: dict[str, Any]) -> str:
    value, low, high = line["slope"]
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _offset(line: dict[str, Any]) -> str:
    value, low, high = line["offset"]
    if line["scale"] == "linear":
        return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}] points"
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
