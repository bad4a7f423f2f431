"""Intervals, bootstrap, line fits, ranks and agreement: arrays in, records or arrays out."""

from hardpan.stats.intervals import clopper_pearson

__all__ = ["clopper_pearson"]
