"""Datasets by name, file, folder or from memory, their example ids, and the one split that everything uses.

>>> from hardpan import Dataset
>>> digits = Dataset.open("digits")
>>> digits.x.shape, digits.n_classes
((1797, 8, 8), 10)
>>> split = digits.splits()
>>> len(split.train), len(split.validation), len(split.test)
(1078, 360, 359)
"""

from hardpan.data.dataset import Dataset, DataWarning, Split
from hardpan.data.opening import formats, names
from hardpan.lazy import exports

exports(__name__)
