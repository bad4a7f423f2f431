"""How tests of bad arguments and files read: ``with refused("priors"): bayes.gaussian(...)``."""

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


@contextmanager
def read_or_refused() -> Iterator[None]:
    """The block may raise an InputError of one short line and nothing else; its asserts are about what was read."""
    try:
        yield
    except InputError as error:
        check_message(error)


def check_message(error: InputError) -> None:
    """One line, short enough to be read."""
    assert 0 < len(str(error)) < 1000, str(error)
    assert "\n" not in str(error), str(error)
