"""The bundled default: scikit-learn's handwritten digits (Alpaydin and Kaynak, 1998)."""

from __future__ import annotations

import numpy as np

from hardpan.data.dataset import Dataset
from hardpan.data.ids import content_ids


def read() -> Dataset:
    """Give 1,797 images of 8 × 8 grey levels 0..16 (uint8) in ten classes; there is no official split.

    Example:
        >>> digits = read()
        >>> digits.x.shape, digits.x.dtype.name, int(digits.x.max()), str(digits.ids[0])
        ((1797, 8, 8), 'uint8', 16, '22b5bba243f99411')
    """
    from sklearn.datasets import load_digits  # here, because scikit-learn takes a second to import

    bunch = load_digits()
    images = bunch.images.astype(np.uint8)
    return Dataset(
        name="digits",
        x=images,
        ids=content_ids(images),
        labels=bunch.target.astype(np.int64),
        class_names=tuple(str(name) for name in bunch.target_names),
        source="scikit-learn load_digits: the test part of UCI's Optical Recognition of Handwritten Digits",
    )
