"""Charts and galleries of confusion scores, and of the errors of a classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan.confusion.ablation import Ablation
from hardpan.confusion.banding import Bands, round_band_edges
from hardpan.confusion.error_prediction import Predictors
from hardpan.confusion.label_noise import LabelIssues
from hardpan.confusion.scoring import Scores
from hardpan.confusion.transfers import ConfusedModels, Transfer
from hardpan.data.dataset import Dataset, rows_of
from hardpan.errors import counted
from hardpan.pages import formatting
from hardpan.pages.galleries import captioned_gallery, dataset_gallery
from hardpan.pages.sections import Chart, fields_of

CELLS = 80
MOST_CLASSES = 12
FEWEST_IN_BAND = 5  # the interval of fewer examples fills the chart
UNIT = "confusion score (bits)"


def score_distribution_chart(
    groups: Mapping[str, NDArray[np.float64]], top: float, title: str = "Distribution of confusion scores"
) -> Chart:
    """Distribution of the scores of one or more groups of examples, counts on a logarithmic axis."""
    edges = round_band_edges(top, CELLS)
    counts = {name: np.histogram(values, edges)[0] for name, values in groups.items()}
    return score_histograms_chart(counts, edges, title)


def score_histograms_chart(counts: Mapping[str, NDArray[Any]], edges: NDArray[np.float64], title: str) -> Chart:
    """Histograms over the same cells, up to the last that has examples."""
    used = np.flatnonzero(np.sum(list(counts.values()), axis=0))
    last = int(used[-1]) + 1 if len(used) else len(edges) - 1
    rows = tuple(
        {"group": name, "low": round(float(low), 6), "high": round(float(high), 6), "count": int(count)}
        for name, column in counts.items()
        for low, high, count in zip(edges[:last], edges[1 : last + 1], column[:last], strict=True)
    )
    upper = (edges[:-1] + edges[1:]) / 2 >= edges[-1] / 2
    words = "; ".join(
        f"{name}: {int(column[upper].sum()):,} of {int(column.sum()):,} examples in the upper half of the range"
        for name, column in counts.items()
    )
    return Chart("distribution", title, rows, f"Histogram of scores. {words}.", {"x_title": UNIT, "log": True})


def error_by_band_chart(groups: Mapping[str, Bands], title: str = "Error by band of the score") -> Chart:
    """Error by band, one line per group; bands with fewer than 5 examples are in the table only, as a note says."""
    sizes = [band.examples for result in groups.values() for band in result.bands if band.error is not None]
    fewest = min(FEWEST_IN_BAND, max(sizes, default=0))
    absent = sum(size < fewest for size in sizes)
    rows = tuple(
        {"group": name, "x": band.mean_score, "low": band.low, "high": band.high, "count": band.examples}
        | fields_of(band.error, "value", "error_low", "error_high")
        for name, result in groups.items()
        for band in result.bands
        if band.error is not None and band.examples >= fewest
    )
    words = "; ".join(
        f"{name}: Pearson ρ over bands {formatting.plain(result.rho)}" for name, result in groups.items()
    )
    options = {"x_title": UNIT}
    if absent:
        options["note"] = f"{counted(absent, 'band')} with fewer than {fewest} examples not drawn."
    return Chart("error_by_band", title, rows, f"{words}.", options)


def joint_scores_chart(transfer: Transfer) -> Chart:
    """The two models' scores against one another."""
    edges = [round(float(edge), 6) for edge in transfer.edges]
    rows = tuple(
        {
            "x_low": edges[i],
            "x_high": edges[i + 1],
            "y_low": edges[j],
            "y_high": edges[j + 1],
            "count": int(transfer.counts[i, j]),
        }
        for i, j in zip(*np.nonzero(transfer.counts), strict=True)
    )
    below = formatting.estimate(transfer.below) if transfer.below.n else "none"
    words = (
        f"Scores of {transfer.examples:,} examples by {transfer.first} and by {transfer.second}: Kendall τ "
        f"{formatting.plain(transfer.tau)}; {below} lie below the diagonal."
    )
    options = {"x_title": f"score by {transfer.first} (bits)", "y_title": f"score by {transfer.second} (bits)"}
    title = f"{transfer.second} against {transfer.first}: τ = {transfer.tau.value:.2f}"
    return Chart("joint", title, rows, words, options | {"top": float(transfer.edges[-1])})


def mean_confusion_chart(result: ConfusedModels) -> Chart:
    """Accuracy against mean confusion, one cross per model."""
    rows = tuple(
        {"name": model.name, "label": model.name}
        | fields_of(model.mean_confusion, "x", "x_low", "x_high")
        | fields_of(model.accuracy, "y", "y_low", "y_high")
        for model in result.models
    )
    words = f"Accuracy against mean confusion of {len(rows)} models; Pearson ρ {formatting.plain(result.rho)}."
    options = {"x_title": "mean confusion score (bits)", "y_title": "accuracy", "percent_y": True}
    return Chart("points", "Accuracy against mean confusion", rows, words, options)


def predictors_chart(result: Predictors) -> Chart:
    """AUROC of each difficulty score, with its interval."""
    roles = {row.name: "muted" if row.uses_labels else "floor" for row in result.rows} | {
        "confusion score": "ceiling"
    }
    rows = tuple({"name": row.name, "role": roles[row.name], **fields_of(row.auroc)} for row in result.rows)
    first, last = result.rows[0], result.rows[-1]
    words = f"AUROC from {first.name} ({first.auroc.value:.3f}) to {last.name} ({last.auroc.value:.3f})."
    title = "AUROC of each difficulty score for errors"
    return Chart("dots", title, rows, words, {"x_title": "AUROC for errors"})


def ablation_charts(ablation: Ablation, seeds: int) -> tuple[Chart, ...]:
    """Figures 5 and 6 for one number of seeds: distributions, and errors by band where there is a target."""
    variants = {counted(len(item.epochs), "epoch"): item for item in ablation.variants if item.seeds == seeds}
    noun = counted(seeds, "seed")
    counts = {epochs: item.counts for epochs, item in variants.items()}
    charts = [score_histograms_chart(counts, ablation.edges, f"Distribution of scores, {noun}")]
    targeted = {
        epochs + (f", ρ = {item.bands.rho.value:.2f}" if np.isfinite(item.bands.rho.value) else ""): item.bands
        for epochs, item in variants.items()
        if item.bands
    }
    if targeted:
        charts.append(error_by_band_chart(targeted, f"Error of {ablation.target or 'the model'} by band, {noun}"))
    return tuple(charts)


def rows_by_class(scores: Scores, *, each: int = 8) -> dict[str, NDArray[np.int64]]:
    """Row numbers of the most confusing examples of each class, or of all without labels.

    Of many classes, those with the highest mean score are used.

    Example:
        >>> import numpy as np
        >>> from hardpan import confusion
        >>> s = confusion.scores(np.array([[0.5, 0.5], [0.9, 0.1], [0.6, 0.4]]), labels=[0, 0, 1])
        >>> {name: rows.tolist() for name, rows in rows_by_class(s, each=1).items()}
        {'0': [0], '1': [2]}
    """
    order = np.argsort(-scores.values, kind="stable")
    if scores.labels is None:
        return {"all classes": order[: each * 4]}
    present = np.unique(scores.labels)
    if len(present) > MOST_CLASSES:
        totals = np.bincount(scores.labels, weights=scores.values)
        means = totals[present] / np.bincount(scores.labels)[present]
        present = np.sort(present[np.argsort(-means, kind="stable")[:MOST_CLASSES]])
    labels = scores.labels[order]
    return {class_name(scores, int(label)): order[labels == label][:each] for label in present}


def score_gallery(
    title: str,
    groups: Mapping[str, ArrayLike],
    scores: Scores,
    dataset: Dataset,
    predicted: NDArray[np.int64] | None = None,
) -> tuple[Chart, ...]:
    """A gallery of examples; none if the dataset has no images.

    Args:
        title: of the gallery.
        groups: row numbers of the scores, by heading.
        scores: their scores; labels and class names come from them.
        dataset: the images, joined by id.
        predicted: (N,) the ensemble's predictions.
    """
    rows = [(name, int(row)) for name, group in groups.items() for row in np.asarray(group, dtype=np.int64)]
    if dataset.x.ndim not in (3, 4) or not rows:
        return ()
    tiles = []
    for group, row in rows:
        error = "" if scores.stderr is None else f" ± {scores.stderr[row]:.3f}"
        # The slider compares the number; a person reads the text, which has the standard error.
        tile: dict[str, Any] = {"group": group, "shown": f"{scores.values[row]:.3f}{error} bits"}
        tile["score"] = round(float(scores.values[row]), 4)
        if scores.labels is not None:
            tile["label"] = class_name(scores, int(scores.labels[row]))
        if predicted is not None:
            tile["predicted"] = class_name(scores, int(predicted[row]))
        if scores.split is not None:
            tile["split"] = str(scores.split[row])
        tiles.append(tile)
    positions = rows_of(dataset.ids, scores.ids[[row for _, row in rows]])
    words = "Under each picture: its score in bits, and the ensemble's prediction if it is not the label."
    return (dataset_gallery(title, dataset, positions, tiles, words),)


def label_gallery(issues: LabelIssues, dataset: Dataset | None, most: int) -> tuple[Chart, ...]:
    """Pictures of the labels that differ from the prediction, the least probable first; none without images."""
    if dataset is None or dataset.x.ndim not in (3, 4) or not len(issues.row):
        return ()
    rows = rows_of(dataset.ids, issues.id[:most])
    return (
        captioned_gallery(
            "Labels that differ from the prediction" + (f": the first {most}" if len(issues.row) > most else ""),
            dataset,
            rows,
            [class_name(issues, int(label)) for label in issues.label[:most]],
            [f"{100 * p:.0f} %" for p in issues.probability[:most]],
            [class_name(issues, int(other)) for other in issues.suggested[:most]],
        ),
    )


def class_name(result: Scores | LabelIssues, label: int) -> str:
    """The name of a class, or its number."""
    return result.class_names[label] if label < len(result.class_names) else str(label)


def confusion_matrix_chart(counts: ArrayLike, class_names: Sequence[str], title: str, *, most: int = 25) -> Chart:
    """A confusion matrix in percent of each label: rows are labels, columns predictions.

    Of more than ``most`` classes, those with the most errors are drawn.

    Args:
        counts: (K, K) examples by label and prediction.
        class_names: K names.
        title: of the chart.
        most: how many classes are drawn.

    Example:
        >>> chart = confusion_matrix_chart([[3, 1], [0, 4]], ["cat", "dog"], "Confusion matrix")
        >>> chart.rows[1]
        {'row': 'cat', 'column': 'dog', 'value': 0.25, 'count': 1}
    """
    table = np.asarray(counts, dtype=np.int64)
    errors = table.sum(axis=1) - np.diag(table)
    classes = np.sort(np.argsort(-errors, kind="stable")[:most])
    totals = np.maximum(table.sum(axis=1), 1)
    rows = tuple(
        {
            "row": str(class_names[i]),
            "column": str(class_names[j]),
            "value": float(table[i, j] / totals[i]),
            "count": int(table[i, j]),
        }
        for i in classes
        for j in classes
    )
    if len(table) > most:
        title += f" (the {most} of {len(table)} classes with the most errors)"
    off = table - np.diag(np.diag(table))
    i, j = divmod(int(off.argmax()), off.shape[1])
    words = (
        f"Most often {class_names[i]} is confused with {class_names[j]}: {off[i, j]:,} of {totals[i]:,}."
        if off[i, j]
        else "No example is misclassified."
    )
    options = {"x_title": "prediction", "y_title": "label", "diagonal": True, "least_written": 0.005}
    return Chart("matrix", title, rows, words, options)


def reliability_chart(confidence: ArrayLike, correct: ArrayLike, title: str, *, bins: int = 10) -> Chart:
    """Accuracy against stated confidence in bins of equal counts, with Wilson's intervals (95 %).

    Args:
        confidence: (N,) the probability of the predicted class.
        correct: (N,) whether the prediction is right.
        title: of the chart.
        bins: how many, at most.

    Example:
        >>> chart = reliability_chart([0.6, 0.6, 0.9, 0.9], [1, 0, 1, 1], "Reliability", bins=2)
        >>> [(round(row["x"], 2), row["y"], row["count"]) for row in chart.rows]
        [(0.6, 0.5, 2), (0.9, 1.0, 2)]
    """
    stated = np.asarray(confidence, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    order = np.argsort(stated, kind="stable")
    rows = []
    for block in np.array_split(order, min(bins, len(order))) if len(order) else ():
        n, rate = len(block), float(right[block].mean())
        z2 = 1.959963984540054**2
        middle, half = rate + z2 / (2 * n), np.sqrt(z2 * (rate * (1 - rate) / n + z2 / (4 * n * n)))
        low, high = (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)
        rows.append(
            {
                "x": float(stated[block].mean()),
                "y": rate,
                "low": max(0.0, float(low)),
                "high": min(1.0, float(high)),
                "count": n,
            }
        )
    gap = sum(row["count"] * abs(row["x"] - row["y"]) for row in rows) / max(1, len(order))
    distance = formatting.fixed(100 * gap, 1)
    words = f"Mean distance between confidence and accuracy over {len(rows)} bins: {distance} points."
    return Chart("reliability", title, tuple(rows), words, {"height": 170})
