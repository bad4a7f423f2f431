"""Normalizing flows with class-conditional Gaussian base: exact densities, and the exact Bayes error behind them.

``fit`` learns a flow from a dataset (``sweep`` chooses the weight of its classification loss first), ``load`` reads
one, and a :class:`Flow` gives densities, posteriors, samples at any temperature, and Bayes errors.
"""

from hardpan.errors import MissingExtra

try:
    import torch as _torch  # noqa: F401  (one clear sentence instead of a traceback from deep inside)
except ImportError as error:
    raise MissingExtra("torch", "torch") from error

from hardpan.flows.benchmark import Benchmark, SynthesizeConfig, read_benchmark, synthesize
from hardpan.flows.config import CLASS_WEIGHTS, PRESETS, FlowConfig
from hardpan.flows.fitting import fit, sweep
from hardpan.flows.flow import Flow, FlowRecord, Samples, load, save, weights_hash
from hardpan.flows.judging import Judged, judge

__all__ = [
    "CLASS_WEIGHTS",
    "PRESETS",
    "Benchmark",
    "Flow",
    "FlowConfig",
    "FlowRecord",
    "Judged",
    "Samples",
    "SynthesizeConfig",
    "fit",
    "judge",
    "load",
    "read_benchmark",
    "save",
    "sweep",
    "synthesize",
    "weights_hash",
]
