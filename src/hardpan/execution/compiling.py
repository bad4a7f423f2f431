"""Functions compiled by numba, kept on disk where a disk may be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function when it is first called, and keep the machine code for the next process.

    numba keeps it beside the source or in the home folder, and refuses a function where neither may be written, as
    in a read-only container or under an account without a home. There it is compiled anew in every process.

    Args:
        options: of ``numba.njit``, such as ``nogil=True``.

    Example:
        >>> @compiled(nogil=True)
        ... def twice(x):
        ...     return 2 * x
        >>> twice(21)
        42
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # "no locator available": there is no folder to keep it in
            return numba.njit(**options)(function)

    return decorate
