"""What people hand to ``hardpan floor estimate``: predictions, votes and flows, joined to a dataset's split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.bayes.floors import Difference, told_apart
from hardpan.bayes.floors.inputs import Labels
from hardpan.data.dataset import Dataset, Split
from hardpan.data.opening import short_name
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.predictions import Predictions

if TYPE_CHECKING:
    from hardpan.flows import Flow

FLOW = "Flow"


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Probabilities of one model for the test part (m, K) and, where it did not train there, for validation."""

    name: str
    test: NDArray[Any]
    validation: NDArray[Any] | None


@dataclass(frozen=True, slots=True, eq=False)
class FlowEvidence:
    """What a flow says of the dataset: exact error, posteriors of both held-out parts, distance from the data.

    ``along`` is its Bayes error after each epoch of its fit.
    """

    name: str
    exact: Estimate
    test: NDArray[Any]
    validation: NDArray[Any] | None
    difference: Difference | None
    along: tuple[Mapping[str, Any], ...] = ()


def read_predictions(
    path: str, dataset: Dataset, labels: Labels, split: Split, *, by_order: bool = False
) -> list[Judged]:
    """Read models' predictions for the test part: every seed at its last epoch, and the mean of several seeds.

    Examples are joined by id; predictions without ids are taken in order only where ``by_order`` says so. Test
    examples that a store marks as trained on are refused, and validation examples are used only where it marks them
    as held out.

    Args:
        path: a store, npz or npy file (:meth:`hardpan.Predictions.open`).
        dataset: the examples.
        labels: (N,) their class numbers.
        split: the parts; the test part has to be there whole.
        by_order: rows are those of the test part, or of the whole dataset.
    """
    opened = Predictions.open(path)
    held = opened.align(dataset, by_order=by_order, split=split)
    row_of = np.full(len(dataset), -1, dtype=np.int64)
    row_of[held.rows] = np.arange(len(held))
    test = row_of[split.test]
    if (test < 0).any():
        missing = int((test < 0).sum())
        raise InputError(
            f"{path}: lacks {missing:,} of the {len(test):,} test examples; record predictions for all of them"
        )
    if held.split is not None and (held.split[test] == "train").any():
        trained = int((held.split[test] == "train").sum())
        raise InputError(
            f"{path}: was trained on {trained:,} of this split's test examples; give the seed of its own split"
        )
    # A split of the predictions themselves says what was trained on; that of the dataset does not.
    validation = None if opened.split is None else _held_out_validation(held, row_of[split.validation])
    seeds, epoch = held.seeds, held.last_epoch()
    stem = short_name(path)
    found, total = [], np.zeros((len(held), held.n_classes))
    for seed in seeds:
        probs = np.asarray(held.read(seed, epoch), dtype=np.float64)
        total += probs
        name = stem if len(seeds) == 1 else f"{stem} seed {seed}"
        found.append(Judged(name, probs[test], None if validation is None else probs[validation]))
    if len(seeds) > 1:
        mean = total / len(seeds)
        name = f"mean of {len(seeds)} seeds of {stem}"
        found.append(Judged(name, mean[test], None if validation is None else mean[validation]))
    return found


def _held_out_validation(held: Predictions, rows: Labels) -> Labels | None:
    """Rows of the validation part, if the predictions are known not to come from training on them."""
    if held.split is None or not len(rows) or (rows < 0).any() or (held.split[rows] == "train").any():
        return None
    return rows


def read_votes(path: str, n_classes: int) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Read counts of votes or soft labels from an npz file (keys ``votes`` or ``soft_labels``), or counts from npy.

    Returns:
        Votes and soft labels, one of them None.
    """
    try:
        with open(path, "rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                arrays = {"votes": loaded}
            else:
                arrays = {key: loaded[key] for key in ("votes", "soft_labels") if key in loaded}
    except OSError as error:
        raise InputError(f"--votes {path}: cannot be read ({error.strerror or error}); give an npz file") from error
    except Exception as error:  # NumPy and zipfile raise a dozen kinds for a damaged file
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"--votes {path}: is not an npz file of numbers ({reason})") from error
    if not arrays:
        raise InputError(f"--votes {path}: has neither votes nor soft_labels; name an array so")
    votes, soft = arrays.get("votes"), arrays.get("soft_labels")
    for array in arrays.values():
        if array.ndim != 2 or array.shape[1] != n_classes:
            raise InputError(f"--votes {path}: must have shape (examples, {n_classes}); got {array.shape}")
    return votes, soft


def flow_evidence(
    path: str, dataset: Dataset, labels: Labels, split: Split, samples: int, confidence: float, seed: int
) -> FlowEvidence:
    """Ask a flow for its exact error, its posteriors of the held-out parts, and samples to tell from the data."""
    from hardpan import flows

    flow: Flow = flows.load(path)
    if flow.n_classes != dataset.n_classes:
        raise InputError(f"--flow {path}: has {flow.n_classes} classes; {dataset.name} has {dataset.n_classes}")
    test, validation = dataset.x[split.test], dataset.x[split.validation]
    shape = test.shape[1:-1] if test.ndim == 4 and test.shape[-1] == 1 else test.shape[1:]
    if shape not in (flow.input_shape, flow.sample_shape):
        raise InputError(
            f"--flow {path}: is of examples of shape {flow.input_shape}, and {dataset.name} has {shape}; give a "
            "flow that was fitted to this data"
        )
    difference = None
    if samples > 0:
        n = min(samples, len(test))
        drawn, y = flow.sample(n, seed=seed)
        if drawn[0].size == test[0].size:
            difference = told_apart(
                _dequantised(test, seed),
                drawn,
                real_labels=labels[split.test],
                sampled_labels=y,
                model="the flow",
                confidence=confidence,
                seed=seed,
            )
    return FlowEvidence(
        name=FLOW,
        exact=flow.bayes_error(),
        test=flow.posterior(test),
        validation=flow.posterior(validation) if len(validation) else None,
        difference=difference,
        along=flow.record.floors,
    )


def _dequantised(x: NDArray[Any], seed: int) -> NDArray[Any]:
    """Whole numbers with uniform noise, as a flow sees them: else their being whole would give them away."""
    return x if x.dtype.kind == "f" else x + np.random.default_rng([seed, 7]).random(x.shape)
