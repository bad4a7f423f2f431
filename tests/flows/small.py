"""Small flows with made-up weights, and small data: what the tests of flows share."""

from __future__ import annotations

import numpy as np
import torch

from hardpan.data.dataset import Dataset
from hardpan.flows import Flow, FlowConfig
from hardpan.flows.flow import FlowRecord
from hardpan.flows.network import build
from hardpan.flows.scaling import describe_scaling, scaling_for


def random_flow(
    x: np.ndarray, *, n_classes: int = 3, seed: int = 0, size: float = 0.05, **settings: object
) -> Flow:
    """An untrained flow for data like x, every weight moved at random so that nothing is the identity."""
    chosen = {"preset": "tiny", "steps": 2, "levels": 2, "width": 8, "transforms": 2, "hidden": 8} | settings
    config = FlowConfig(seed=seed, **chosen).filled()
    priors = torch.arange(1.0, n_classes + 1)
    network = build(config, scaling_for(x, config), priors / priors.sum())
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for item in network.parameters():
            item.add_(size * torch.randn(item.shape, generator=generator))
        spread = torch.randn(network.base.means.shape, generator=generator)
        network.base.set_means(1.5 * spread / spread.shape[1] ** 0.5)
    # Actnorms that fit the data, as a fit would have them: else samples are far from anything that floats can undo.
    ready = network.scaling.continuous(x, np.random.default_rng(0))
    network.transform.start(network.scaling.to_net(torch.from_numpy(ready)))
    names = tuple(f"class {k}" for k in range(n_classes))
    return Flow(network, FlowRecord(config, names, describe_scaling(network.scaling)))


def blobs(n: int = 600, d: int = 4, n_classes: int = 3, seed: int = 0) -> Dataset:
    """Gaussian classes in d dimensions: means two apart on the axes, unit covariance."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    x = rng.normal(size=(n, d)) + 2.0 * np.eye(n_classes, d)[labels]
    ids = np.array([f"row-{i:07d}" for i in range(n)])
    return Dataset("blobs", x, ids, labels, tuple(str(k) for k in range(n_classes)))


def three_digits() -> Dataset:
    """The zeros, ones and twos of digits: real pictures, of few classes so that exact errors come quickly."""
    data = Dataset.open("digits")
    few = data.labels < 3
    return Dataset("three digits", data.x[few], data.ids[few], data.labels[few], data.class_names[:3])


GREY = np.random.default_rng(0).integers(0, 256, (40, 8, 8)).astype(np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (40, 8, 8, 3)).astype(np.uint8)
PADDED = np.random.default_rng(2).integers(0, 17, (40, 7, 6)).astype(np.uint8)
FLOATS = np.random.default_rng(3).random((40, 4, 4)).astype(np.float32)
VECTORS = np.random.default_rng(4).normal(size=(60, 5)) * [1, 10, 0.1, 0, 3] + [0, 5, 0, 7, 0]
COUNTS = np.random.default_rng(5).integers(0, 9, (60, 3))
LINE = np.random.default_rng(6).normal(size=(60, 1))
FAMILIES = {
    "grey": (GREY, {}),
    "colour": (COLOUR, {}),
    "padded": (PADDED, {}),
    "floats": (FLOATS, {}),
    "three levels": (GREY, {"levels": 3, "pad_to": 16, "steps": 1}),
    "scales below one": (FLOATS, {"most_scale": 1.0, "least_scale": 0.05, "reach": 0.0}),
    "class covariances": (FLOATS, {"class_covariances": True}),
    "vectors": (VECTORS, {}),
    "counts": (COUNTS, {}),
    "one feature": (LINE, {}),
    "vectors, class covariances": (VECTORS, {"class_covariances": True}),
}
