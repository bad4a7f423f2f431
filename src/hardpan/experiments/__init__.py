"""Studies that need several parts of hardpan: floor bench, learning curves, re-tuning, training on part."""

from hardpan.experiments.floor_bench import FloorBench, FloorBenchConfig, run_bench
from hardpan.experiments.floor_estimate import FloorConfig, FloorReport, estimate_floor

__all__ = ["FloorBench", "FloorBenchConfig", "FloorConfig", "FloorReport", "estimate_floor", "run_bench"]
