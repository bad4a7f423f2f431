"""Studies that need several parts of hardpan: floor bench, learning curves, re-tuning, training on part."""

from hardpan.studies.crossval import CrossvalConfig, cross_validate
from hardpan.studies.floor_bench import FloorBenchConfig, run_bench
from hardpan.studies.partial import PartialConfig, train_on_part
from hardpan.studies.retune import RetuneConfig, search_settings

__all__ = [
    "CrossvalConfig",
    "FloorBenchConfig",
    "PartialConfig",
    "RetuneConfig",
    "cross_validate",
    "run_bench",
    "search_settings",
    "train_on_part",
]


def __dir__() -> list[str]:
    return sorted(__all__)
