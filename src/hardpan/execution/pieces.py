"""One map for every back end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Protocol, TypeVar

from hardpan.errors import InputError
from hardpan.execution import on_dask, on_ray, on_this_machine
from hardpan.execution.outcomes import Outcomes, Ready

Progress = Callable[[str, float], None]
"""Called with the step that begins and the fraction of the work that is done, 0 to 1."""
Piece = TypeVar("Piece")
Result = TypeVar("Result")


class _Backend(Protocol):
    """Give the outcomes of pieces in whatever order they end; a piece whose worker dies is started again."""

    def __call__(
        self, function: Callable[[Any], Any], pieces: list[Any], workers: int | None, address: str, ready: Ready, /
    ) -> Outcomes: ...


_RUNNERS: dict[str, _Backend] = {
    "threads": on_this_machine.in_threads,
    "processes": on_this_machine.in_processes,
    "dask": on_dask.outcomes,
    "ray": on_ray.outcomes,
}
BACKENDS = tuple(_RUNNERS)


def map_pieces(
    function: Callable[[Piece], Result],
    pieces: Iterable[Piece],
    *,
    backend: str = "threads",
    workers: int | None = None,
    address: str = "",
    progress: Progress | None = None,
    each: Callable[[int, Result], None] | None = None,
    ready: Callable[[], object] | None = None,
) -> list[Result]:
    """Give ``[function(piece) for piece in pieces]``, computed wherever ``backend`` says.

    The first exception that a piece raises ends the call: the exception itself is raised, with a note that names
    the piece. A piece whose worker is killed is started again on another worker, three times at most; then
    :class:`PieceLost` is raised.

    Args:
        function: pure; it is sent to the workers, so it should read what is large, not carry it along.
        pieces: the arguments, one a call.
        backend: "threads" or "processes" of this machine, "dask" or "ray".
        workers: how many pieces run at once; by default as many as there are cores here or in the cluster.
        address: of a running cluster, ``tcp://host:8786`` for Dask, ``host:6379`` for Ray; without one a cluster
            of this machine's cores is started for the call.
        progress: told after every piece, in the caller's thread: a step and the fraction done.
        each: given the number and the result of every piece as it ends, in the caller's thread: the place to save
            it, so that a caller who is killed loses only the pieces under way.
        ready: called once, in the caller's thread, when there are workers and before any piece is sent: the place
            to make what pieces write into, so that nothing is left behind where a cluster does not answer.

    Returns:
        The results in the order of the pieces.

    Example:
        >>> import numpy as np
        >>> def mean_of(i):
        ...     return np.random.default_rng([0, i]).standard_normal(1000).mean()
        >>> here = map_pieces(mean_of, range(4))
        >>> here == [mean_of(i) for i in range(4)]
        True
    """
    runner = _RUNNERS.get(backend)
    if runner is None:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InputError(f"workers must be a whole number of at least 1; got {workers!r}")
    if address and backend in ("threads", "processes"):
        raise InputError(f"address {address!r} is for the back ends dask and ray; backend is {backend!r}")
    given = list(pieces)
    if not given:
        return []
    found: dict[int, Result] = {}
    with closing(
        runner(function, given, workers, address, ready or _nothing)
    ) as running:  # ends what is under way after an error
        for outcome in running:
            if outcome.error is not None:
                raise outcome.error
            found[outcome.index] = outcome.value
            if each is not None:
                each(outcome.index, outcome.value)
            if progress is not None:
                progress(f"{len(found)} of {len(given)} pieces", len(found) / len(given))
    return [found[index] for index in range(len(given))]


def _nothing() -> None:
    pass
