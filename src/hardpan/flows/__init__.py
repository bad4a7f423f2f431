"""Normalizing flows with class-conditional Gaussian base: exact densities, and the exact Bayes error behind them.

``fit`` learns a flow from a dataset, ``load`` reads one, and a :class:`Flow` has densities, posteriors, samples at
any temperature, and Bayes errors. ``synthesize`` writes a benchmark with a chosen Bayes error, ``judge`` compares a
classifier with its true posteriors.

Everything is imported at first use; what computes needs torch.
"""

from typing import TYPE_CHECKING

from hardpan.lazy import exports

if TYPE_CHECKING:
    from hardpan.flows.config import PRESETS, FlowConfig, SynthesizeConfig
    from hardpan.flows.fitting import fit
    from hardpan.flows.flow import Flow, bundled_flow_names, load, weights_hash
    from hardpan.flows.judging import judge
    from hardpan.flows.sampling import sample_temperatures
    from hardpan.flows.synthetic_benchmark import read_benchmark, synthesize

exports(__name__)
