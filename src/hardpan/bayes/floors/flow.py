"""What a flow says about a dataset, and how far the flow is from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments
from hardpan.bayes.floors.error_estimates import Floats, Labels, Moving
from hardpan.bayes.floors.gaussian_fit import own_decisions_p_value
from hardpan.bayes.floors.inputs import FloorInputs
from hardpan.bayes.floors.plugin import plug_in_entries
from hardpan.bayes.floors.verdict import AssumptionTest, Entry
from hardpan.data.dataset import Dataset, Split
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import record

MOST_EACH = 5000
POSTERIOR_OF_TRAIN = 20_000  # a larger training set gets no posteriors of the flow: nothing on the page shows them
_RANDOM_FEATURES = 1000


class FlowModel(Protocol):
    """What the floor needs of a flow; :class:`hardpan.flows.Flow` has it."""

    record: Any

    @property
    def n_classes(self) -> int:
        """K."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of an example."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of a sample."""

    def bayes_error(self, temperature: float = 1.0, *, rtol: float = 1e-3, seed: int = 0) -> Estimate:
        """Exact Bayes error."""

    def posterior(self, x: ArrayLike, *, temperature: float = 1.0, seed: int = 0) -> NDArray[np.float64]:
        """Posteriors (n, K)."""

    def sample(self, n: int, *, temperature: float = 1.0, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
        """Examples and labels."""


@record
class Difference:
    """How well a classifier separates real examples from a model's samples.

    Attributes:
        model: name of the model.
        accuracy: held-out accuracy of the discriminator; 0.5 is chance.
        variation: the lower bound 2 × accuracy − 1 of the total variation between data and model.
    """

    model: str
    accuracy: Estimate
    variation: Estimate


@dataclass(frozen=True, slots=True, eq=False)
class FlowEvidence:
    """What a flow says about a dataset.

    Attributes:
        name: what to call it.
        error: its exact Bayes error.
        posterior: (N, K) posteriors; NaN where they were not computed.
        difference: how far its samples are from the test examples, where that was computed.
        along: its Bayes error after each epoch of its fit: rows of epoch, bayes_error, validation_nll.
    """

    name: str
    error: Estimate
    posterior: Floats
    difference: Difference | None = None
    along: tuple[Mapping[str, Any], ...] = ()


def flow_evidence(
    flow: FlowModel,
    dataset: Dataset,
    labels: Labels,
    split: Split,
    *,
    name: str = "flow",
    samples: int = MOST_EACH,
    confidence: float = 0.95,
    most_rows: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> FlowEvidence:
    """Compute a flow's exact Bayes error, its posteriors, and how well its samples are separated from the data.

    Args:
        flow: a fitted flow of this dataset.
        dataset: the examples.
        labels: (N,) class numbers.
        split: posteriors are computed for validation and test, and for train up to 20,000 examples.
        samples: how many samples are compared with test examples; 0 skips the comparison.
        most_rows: posteriors of at most so many validation and so many test examples, and of none of train.
    """
    report = progress or no_progress
    if flow.n_classes != dataset.n_classes:
        raise InputError(f": has {flow.n_classes} classes; {dataset.name} has {dataset.n_classes}", argument="flow")
    if not fits(flow, dataset):
        raise InputError(
            f": was fitted to examples of shape {flow.input_shape}; {dataset.name} has {dataset.x.shape[1:]}: "
            "pass a flow that was fitted to this data",
            argument="flow",
        )
    parts = {"validation": split.validation, "test": split.test}
    if most_rows is not None:
        parts = {split_name: rows[:most_rows] for split_name, rows in parts.items()}
    elif len(split.train) <= POSTERIOR_OF_TRAIN:
        parts["train"] = split.train
    posterior = np.full((len(dataset), dataset.n_classes), np.nan)
    for number, (split_name, rows) in enumerate(parts.items()):
        if len(rows):
            report(f"flow: posteriors of {len(rows):,} {split_name} examples", number / 4)
            posterior[rows] = flow.posterior(dataset.x[rows], seed=seed)
    difference = None
    if samples > 0:
        report("flow: samples", 0.75)
        test = dataset.x[split.test]
        sampled, sampled_labels = flow.sample(min(samples, len(test)), seed=seed)
        if sampled[0].size == test[0].size:
            difference = two_sample_test(
                _dequantised(test, seed),
                sampled,
                real_labels=labels[split.test],
                sampled_labels=sampled_labels,
                model=name,
                confidence=confidence,
                seed=seed,
            )
    return FlowEvidence(name, flow.bayes_error(seed=seed), posterior, difference, flow.record.floors)


def fits(flow: FlowModel, dataset: Dataset) -> bool:
    """Whether a flow has the classes and the shape of a dataset."""
    shape = dataset.x.shape[1:-1] if dataset.x.ndim == 4 and dataset.x.shape[-1] == 1 else dataset.x.shape[1:]
    shapes = (tuple(flow.input_shape), tuple(flow.sample_shape))
    return flow.n_classes == dataset.n_classes and (shape in shapes or dataset.x.shape[1:] in shapes)


def two_sample_test(
    real: ArrayLike,
    sampled: ArrayLike,
    *,
    real_labels: ArrayLike | None = None,
    sampled_labels: ArrayLike | None = None,
    model: str = "the model",
    confidence: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Bound the total variation between data and a model from below, by a classifier that separates them.

    |E(p̂) − E(p)| ≤ TV(p̂, p), and a discriminator of accuracy a shows TV ≥ 2a − 1. A large bound means that the
    model's Bayes error may be far from the data's; a small one proves nothing, since a better discriminator may
    exist. Here: ridge regression on 1,000 random ReLU features of the standardised examples, and on their labels
    where they are passed; fitted on four fifths, tested on the rest.

    Args:
        real: (n, ...) real examples that the model was not fitted on.
        sampled: (m, ...) the model's samples.
        real_labels: (n,) classes, and ``sampled_labels``: with both, the joint distribution is compared.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.normal(size=(2, 2000, 2))
        >>> found = two_sample_test(a, b * [1.0, 2.0])                     # total variation 0.32
        >>> 0.1 < found.variation.low < 0.32 < found.variation.high
        True
    """
    from hardpan.testbed import discriminate

    a, b = arguments.features("real", real), arguments.features("sampled", sampled)
    if real_labels is not None and sampled_labels is not None:
        first, second = (
            arguments.labels("real_labels", real_labels, len(a)),
            arguments.labels("sampled_labels", sampled_labels, len(b)),
        )
        k = arguments.class_count(None, first, second)
        a, b = _with_classes(a, first, k), _with_classes(b, second, k)
    rng = np.random.default_rng([seed, 0])
    a, b = (rows[np.sort(rng.permutation(len(rows))[:MOST_EACH])] for rows in (a, b))
    weights = np.random.default_rng([seed, 1])

    def random_features(x: Floats, which: NDArray[np.int64], judged: Floats) -> NDArray[np.int64]:
        return _ridge(x, which, judged, weights)

    accuracy = discriminate(a, b, classifier=random_features, confidence=confidence, seed=seed).accuracy
    value, low, high = (max(0.0, 2 * end - 1) for end in (accuracy.value, accuracy.low, accuracy.high))
    method = "2 × accuracy − 1 of a discriminator on random features, one held-out split"
    note = "A lower bound: the total variation may be anything above."
    variation = Estimate(value, 2 * accuracy.stderr, low, high, confidence, method, accuracy.n, seed, (note,))
    return Difference(model, accuracy, variation)


def _dequantised(x: NDArray[Any], seed: int) -> NDArray[Any]:
    """Whole numbers with uniform noise, as a flow sees them: else a discriminator would see that they are whole."""
    return x if x.dtype.kind == "f" else x + np.random.default_rng([seed, 7]).random(x.shape)


def _with_classes(rows: NDArray[np.generic], labels: NDArray[np.int64], k: int) -> Floats:
    hot = np.zeros((len(rows), k))
    hot[np.arange(len(rows)), labels] = 1.0
    return np.concatenate([rows.astype(np.float64), hot], axis=1)


def _ridge(x: Floats, which: NDArray[np.int64], judged: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale <= 1e-12 * (1 + np.abs(mean))] = np.inf
    directions = rng.normal(size=(x.shape[1], _RANDOM_FEATURES)) / np.sqrt(max(1, np.isfinite(scale).sum()))
    offsets = rng.normal(size=_RANDOM_FEATURES)

    def lifted(rows: Floats) -> Floats:
        return np.asarray(np.maximum((rows - mean) / scale @ directions + offsets, 0.0))

    inside = lifted(x)
    centre = inside.mean(axis=0)
    inside -= centre
    gram = inside.T @ inside
    gram[np.diag_indices_from(gram)] += 1e-3 * np.trace(gram) / len(gram)
    target = which - which.mean()
    answer = np.linalg.solve(gram, inside.T @ target)
    return np.asarray((lifted(judged) - centre) @ answer + which.mean() > 0.5).astype(np.int64)


def flow_entries(
    flow: FlowEvidence, inputs: FloorInputs, calibrations: Sequence[str], confidence: float, seed: int
) -> list[Entry]:
    """The error of a flow's own samples, its classifier, and the plug-ins of its posterior."""
    test, validation = (
        rows[np.isfinite(flow.posterior[rows]).all(axis=1)] for rows in (inputs.test, inputs.split.validation)
    )
    if not len(test):
        return [Entry(f"Exact error of {flow.name}", "estimate", flow.error, "flow", flow.name)]
    if len(test) == len(inputs.test):
        inputs.decisions[flow.name] = lambda: flow.posterior[test].argmax(axis=1)
    held_out = (flow.posterior[validation], inputs.labels[validation]) if len(validation) else None
    entries = plug_in_entries(
        flow.name,
        flow.posterior[test],
        inputs.labels[test],
        held_out,
        calibrations=calibrations,
        confidence=confidence,
        seed=seed,
    )
    made = next(entry.estimate for entry in entries if entry.role == "classifier")
    check = AssumptionTest(own_decisions_p_value(flow.error, made), flow.error.value, made.value)
    along = [row["bayes_error"] for row in flow.along]
    settled = None
    if len(along) >= 4:
        earlier, last = float(along[round(0.75 * len(along)) - 1]), float(along[-1])
        settled = Moving(earlier, last, abs(earlier - last) > 0.1 * max(earlier, last))
    name = f"Exact error of {flow.name}"
    return [Entry(name, "estimate", flow.error, "flow", flow.name, check=check, moving=settled), *entries]
