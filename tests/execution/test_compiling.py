"""Compiled functions work where no machine code can be kept: a read-only folder and no home."""

import numba
import pytest

from hardpan.execution.compiling import compiled

SOURCE = "def half(x):\n    return x / 2\n"


def _made_nowhere():
    """A function whose source file is not there, so that numba has no place to keep its code."""
    names = {}
    exec(compile(SOURCE, "/dev/null/nowhere.py", "exec"), names)
    return names["half"]


def test_numba_itself_refuses_such_a_function():
    with pytest.raises(RuntimeError, match="locator"):
        numba.njit(cache=True)(_made_nowhere())


def test_a_function_that_cannot_be_kept_is_compiled_all_the_same():
    half = compiled(nogil=True)(_made_nowhere())
    assert half(3.0) == 1.5
    assert half.signatures  # it was compiled, not interpreted
    assert half.targetoptions["nogil"]


def test_a_function_of_a_file_is_kept():
    from hardpan.confusion import entropy_kernel

    assert entropy_kernel.half_entropies.stats.cache_path
