"""The numbers that every audit gives by the same names, so that audits can be compared."""

from __future__ import annotations

MEASURES = {
    "ceiling": "The floor is at most",
    "flow_floor": "Floor by the flow",
    "gaussian_floor": "Floor by the Gaussian model",
    "best_error": "Error of the best model",
    "headroom": "Headroom",
    "mean_confusion": "Mean confusion (bits)",
    "tail_share": "Errors in the confusing tenth",
    "drop": "Drop on fresh data",
    "bits": "Bits per dimension of the flow",
    "duplicated": "Test examples with a copy in train",
}
"""Measure by name, and what it is in words."""

HARDNESS = ("flow_floor", "gaussian_floor", "best_error", "mean_confusion")
"""Measures by which datasets are ranked: larger is harder."""

PLAIN = ("mean_confusion", "bits")
"""Measures that are no fractions."""
