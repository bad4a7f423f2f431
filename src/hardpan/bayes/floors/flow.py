"""What a flow says about a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, bdtrc, ndtri

from hardpan.bayes.floors.entries import AssumptionTest, Entry
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.inputs import FloorInputs
from hardpan.bayes.floors.plugin import plug_in_entries
from hardpan.data.dataset import Dataset, Split
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress


class FloorFlow(Protocol):
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


@dataclass(frozen=True, slots=True, eq=False)
class FlowEvidence:
    """What a flow says about a dataset.

    Attributes:
        name: what to call it.
        error: its exact Bayes error.
        posterior: (N, K) posteriors of validation and test; NaN where they were not computed.
        along: its Bayes error after each epoch of its fit: rows of epoch, bayes_error, validation_nll.
    """

    name: str
    error: Estimate
    posterior: Floats
    along: tuple[Mapping[str, Any], ...] = ()


def flow_evidence(
    flow: FloorFlow,
    dataset: Dataset,
    labels: Labels,
    split: Split,
    *,
    name: str = "flow",
    most_rows: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> FlowEvidence:
    """Compute a flow's exact Bayes error, and its posteriors of validation and test examples.

    Args:
        flow: a fitted flow of this dataset.
        dataset: the examples.
        labels: (N,) class numbers.
        split: posteriors are computed for validation and test.
        most_rows: posteriors of at most this many validation and test examples.
    """
    report = progress or no_progress
    dataset.require_vectors("a flow")
    if flow.n_classes != dataset.n_classes:
        raise InputError(f": has {flow.n_classes} classes; {dataset.name} has {dataset.n_classes}", argument="flow")
    if not flow_fits_dataset(flow, dataset):
        raise InputError(
            f": was fitted to examples of shape {flow.input_shape}; {dataset.name} has {dataset.x.shape[1:]}: "
            "pass a flow that was fitted to this data",
            argument="flow",
        )
    posterior = np.full((len(dataset), dataset.n_classes), np.nan)
    for done, rows in ((0.0, split.validation[:most_rows]), (0.4, split.test[:most_rows])):
        if len(rows):
            report(f"flow: posteriors of {len(rows):,} examples", done)
            posterior[rows] = flow.posterior(flow_inputs(flow, dataset)[rows], seed=seed)
    return FlowEvidence(name, flow.bayes_error(seed=seed), posterior, flow.record.floors)


def flow_fits_dataset(flow: FloorFlow, dataset: Dataset) -> bool:
    """Whether a flow has the classes and the shape of a dataset."""
    of_dataset = flow_inputs(flow, dataset).shape[1:]
    shape = of_dataset[:-1] if len(of_dataset) == 3 and of_dataset[-1] == 1 else of_dataset
    shapes = (tuple(flow.input_shape), tuple(flow.sample_shape))
    return flow.n_classes == dataset.n_classes and (shape in shapes or of_dataset in shapes)


def flow_inputs(flow: FloorFlow, dataset: Dataset) -> NDArray[Any]:
    """The vectors of a dataset where a flow was fitted to so many numbers, else its examples."""
    of_vectors = dataset.vectors is not None and tuple(flow.input_shape) == dataset.vectors.shape[1:]
    return dataset.inputs if of_vectors else dataset.x


def flow_entries(flow: FlowEvidence, inputs: FloorInputs, confidence: float) -> list[Entry]:
    """The error of a flow's own samples, its classifier, and the plug-ins of its posterior."""
    test = inputs.test[np.isfinite(flow.posterior[inputs.test]).all(axis=1)]
    name = f"Exact error of {flow.name}"
    if not len(test):
        return [Entry(name, "estimate", flow.error, "flow", flow.name)]
    if len(test) == len(inputs.test):
        inputs.decisions[flow.name] = flow.posterior[test].argmax(axis=1)
    sampling = inputs.sampling.of(np.isin(inputs.test, test))
    entries = plug_in_entries(flow.name, flow.posterior[test], inputs.labels[test], confidence, sampling=sampling)
    made = next(entry.estimate for entry in entries if entry.role == "classifier")
    check = None
    if inputs.sampling.group is None:
        check = AssumptionTest(flow_decisions_p_value(flow.error, made), flow.error.value, made.value)
    return [Entry(name, "estimate", flow.error, "flow", flow.name, check=check), *entries]


def flow_decisions_p_value(predicted: Estimate, made: Estimate) -> float:
    """Two-sided p-value that a model's own classifier errs as often as the model's Bayes error says.

    If the model were the data's distribution, the errors made on n test examples would be binomial with that
    proportion; the binomial tails are averaged over the standard error of the Bayes error.

    Args:
        predicted: the model's Bayes error.
        made: held-out error of its decisions.

    Example:
        >>> exact = Estimate(0.008, 0.0, 0.008, 0.008)
        >>> flow_decisions_p_value(exact, Estimate(0.109, 0.0, 0.1, 0.12, n=10_000)) < 1e-9
        True
    """
    wrong, n = round(made.value * made.n), made.n
    errors = np.clip(predicted.value + predicted.stderr * ndtri((np.arange(33) + 0.5) / 33), 0.0, 1.0)
    as_few, as_many = bdtr(wrong, n, errors).mean(), bdtrc(wrong - 1, n, errors).mean()
    return min(1.0, 2 * float(min(as_few, as_many)))
