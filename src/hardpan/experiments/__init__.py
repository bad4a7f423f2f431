"""Studies that need several parts of hardpan: floor bench, learning curves, re-tuning, training on part."""

from hardpan.experiments.crossval import CrossvalConfig, CrossvalStudy, cross_validate
from hardpan.experiments.floor_bench import FloorBench, FloorBenchConfig, run_bench
from hardpan.experiments.floor_estimate import FloorConfig, FloorReport, estimate_floor
from hardpan.experiments.partial import PartialConfig, PartialStudy, train_on_part
from hardpan.experiments.retune import RetuneConfig, RetuneStudy, search_settings
from hardpan.experiments.runs import Place

__all__ = [
    "CrossvalConfig",
    "CrossvalStudy",
    "FloorBench",
    "FloorBenchConfig",
    "FloorConfig",
    "FloorReport",
    "PartialConfig",
    "PartialStudy",
    "Place",
    "RetuneConfig",
    "RetuneStudy",
    "cross_validate",
    "estimate_floor",
    "run_bench",
    "search_settings",
    "train_on_part",
]
