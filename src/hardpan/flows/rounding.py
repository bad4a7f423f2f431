"""What rounding to 8 bits costs: saved images know less than the numbers that a flow drew."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardpan import stats
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.flows.flow import Flow

DRAWS = 4


def to_levels(x: NDArray[np.floating], levels: int) -> NDArray[np.uint8]:
    """Images in level units as bytes: level k stands for [k, k + 1); images of one level (0..1) get 256.

    Example:
        >>> to_levels(np.array([-0.2, 0.0, 3.999, 300.0]), 256).tolist(), to_levels(np.array([0.5]), 1).tolist()
        ([0, 0, 3, 255], [128])
    """
    scale, top = (256, 255) if levels == 1 else (1, levels - 1)
    if levels > 256:
        raise InputError(f"images of {levels} levels do not fit 8 bits; give format npz")
    return np.asarray(np.clip(np.floor(x * scale), 0, top), dtype=np.uint8)


def cost(
    flow: Flow,
    x: NDArray[np.float32],
    posterior: NDArray[np.float64],
    *,
    temperature: float,
    seed: int = 0,
    draws: int = DRAWS,
) -> Estimate:
    """How much higher the floor of the rounded files is, at most.

    A classifier of the rounded image x₈ averages the joint density over the cell that was rounded away:
    d(x₈) = argmax_y mean_u π_y p_y(x₈ + u), u uniform. Its error exceeds the exact one by
    mean(max_y p(y | x) − p(d(x₈) | x)) over draws of x. No classifier of x₈ can be better than the best, so the
    floor of the files lies between the exact Bayes error and it plus this number.

    Args:
        flow: where the examples came from.
        x: (N, ...) examples in level units, not rounded.
        posterior: (N, K) their true posteriors.
        temperature: what they were drawn at.
        seed: of the noise.
        draws: points in each cell.

    Returns:
        The excess, with its standard error over the N examples.
    """
    levels = flow.grey_levels or 1
    rounded = to_levels(x, levels).astype(np.float32)
    scale = 256 if levels == 1 else 1
    joint = np.full((len(x), flow.n_classes), -np.inf)
    for number in range(draws):
        noise = np.random.default_rng([seed, number]).random(x.shape, dtype=np.float32)
        found = flow.log_joint(((rounded + noise) / scale).astype(np.float32), temperature=temperature)
        joint = np.logaddexp(joint, found)
    chosen = joint.argmax(axis=1)
    excess = posterior.max(axis=1) - posterior[np.arange(len(x)), chosen]
    return stats.mean(
        excess,
        least=0.0,
        method=f"excess error of the flow's classifier on rounded images, {draws} points a cell",
        seed=seed,
        notes=("an upper bound: another classifier of the rounded images may do better",),
    )
