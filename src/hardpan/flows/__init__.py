"""Normalizing flows with class-conditional Gaussian base: exact densities, and the exact Bayes error behind them.

``fit`` learns a flow from a dataset (``sweep`` chooses the weight of its classification loss first), ``load`` reads
one, and a :class:`Flow` has densities, posteriors, samples at any temperature, and Bayes errors. ``synthesize``
writes a benchmark with a chosen Bayes error, ``judge`` compares a classifier with its true posteriors.

Everything is imported at first use; what computes needs torch.
"""

from typing import TYPE_CHECKING

from hardpan.lazy import exports

if TYPE_CHECKING:
    from hardpan.flows.benchmark import Benchmark, read_benchmark, synthesize
    from hardpan.flows.cards import FlowCard, write_card
    from hardpan.flows.config import CLASS_WEIGHTS, PRESETS, FlowConfig, SynthesizeConfig
    from hardpan.flows.fitting import fit, sweep
    from hardpan.flows.flow import Flow, FlowRecord, load, weights_hash
    from hardpan.flows.judging import Judgement, judge
    from hardpan.flows.sampling import FlowSamples, sample_temperatures

_HOME = {
    "CLASS_WEIGHTS": ".config",
    "PRESETS": ".config",
    "Benchmark": ".benchmark",
    "Flow": ".flow",
    "FlowCard": ".cards",
    "FlowConfig": ".config",
    "FlowRecord": ".flow",
    "FlowSamples": ".sampling",
    "Judgement": ".judging",
    "SynthesizeConfig": ".config",
    "fit": ".fitting",
    "judge": ".judging",
    "load": ".flow",
    "read_benchmark": ".benchmark",
    "sample_temperatures": ".sampling",
    "sweep": ".fitting",
    "synthesize": ".benchmark",
    "weights_hash": ".flow",
    "write_card": ".cards",
}

__all__ = [
    "CLASS_WEIGHTS",
    "PRESETS",
    "Benchmark",
    "Flow",
    "FlowCard",
    "FlowConfig",
    "FlowRecord",
    "FlowSamples",
    "Judgement",
    "SynthesizeConfig",
    "fit",
    "judge",
    "load",
    "read_benchmark",
    "sample_temperatures",
    "sweep",
    "synthesize",
    "weights_hash",
    "write_card",
]

__getattr__, __dir__ = exports(__name__, _HOME, __all__)
