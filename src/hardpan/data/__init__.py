"""Datasets by name, file or folder, their example ids, and the one split that everything uses.

>>> from hardpan import datasets
>>> digits = datasets.load("digits")
>>> digits.x.shape, digits.n_classes
((1797, 8, 8), 10)
>>> parts = datasets.split(digits)
>>> len(parts.train), len(parts.validation), len(parts.test)
(1078, 360, 359)
"""

from hardpan.data.ids import content_ids, row_ids
from hardpan.data.registry import formats, load, names
from hardpan.data.splits import split

__all__ = ["content_ids", "formats", "load", "names", "row_ids", "split"]
