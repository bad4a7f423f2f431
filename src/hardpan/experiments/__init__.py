"""Studies that need several parts of hardpan: floor bench, learning curves, re-tuning, training on part."""
