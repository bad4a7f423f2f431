"""Options that always come together: a dataclass whose fields are options, as one parameter of a command."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

Backend = Annotated[str, typer.Option("--backend", help="Where the pieces run: threads, processes, dask or ray.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Pieces at once (default: by the machine).")]
Address = Annotated[str, typer.Option("--address", help="Of a cluster: tcp://host:8786 (Dask) or host:6379 (Ray).")]


@dataclasses.dataclass(frozen=True, slots=True)
class Where:
    """Where pieces of work are computed."""

    backend: Backend = "threads"
    workers: Workers = None
    address: Address = ""


HERE = Where()


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command every field of its dataclass parameters as an option of its own.

    Typer reads signatures, so the fields stand in the parameter's place there; when the command is called they are
    put together again.

    Example:
        >>> @spread
        ... def show(name: str, where: Where = HERE) -> None:
        ...     print(name, where.backend, where.workers)
        >>> list(inspect.signature(show).parameters)
        ['name', 'backend', 'workers', 'address']
        >>> show(name="scores", backend="dask", workers=2, address="")
        scores dask 2
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if dataclasses.is_dataclass(kind):
            groups[name] = kind
            parameters += _options(kind)
        else:
            parameters.append(parameter.replace(annotation=kind))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{item.name: given.pop(item.name) for item in dataclasses.fields(kind)})
        command(**given)

    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    return run


def _options(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            item.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=item.default,
            annotation=hints[item.name],
        )
        for item in dataclasses.fields(kind)
    ]
