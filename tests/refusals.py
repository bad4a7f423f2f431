"""How tests of bad arguments read: ``with refused("priors"): bayes.gaussian(...)``."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hardpan.errors import InputError


@contextmanager
def refused(argument: str | tuple[str, ...]) -> Iterator[None]:
    """The block must raise an InputError about this argument, or these arguments."""
    with pytest.raises(InputError) as caught:
        yield
    assert caught.value.argument == argument
