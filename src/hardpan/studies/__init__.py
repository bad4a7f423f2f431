"""Studies that need several parts of hardpan: floor bench, learning curves, re-tuning, training on part."""

from hardpan.studies.crossval import CrossvalConfig, CrossvalStudy, cross_validate
from hardpan.studies.floor_bench import FloorBench, FloorBenchConfig, run_bench
from hardpan.studies.partial import PartialConfig, PartialStudy, train_on_part
from hardpan.studies.retune import RetuneConfig, RetuneStudy, search_settings

__all__ = [
    "CrossvalConfig",
    "CrossvalStudy",
    "FloorBench",
    "FloorBenchConfig",
    "PartialConfig",
    "PartialStudy",
    "RetuneConfig",
    "RetuneStudy",
    "cross_validate",
    "run_bench",
    "search_settings",
    "train_on_part",
]


def __dir__() -> list[str]:
    return sorted(__all__)
