"""Options that always come together: a dataclass whose fields are options, as one parameter of a command."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from hardpan import execution
from hardpan.cli.common import JsonFlag, OutFolder, check_out, emit_report
from hardpan.report.base import Report

R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True)
class Where:
    """The options of :func:`hardpan.parallel`."""

    backend: Annotated[str, typer.Option("--backend", help="Run tasks in threads, processes, dask or ray.")] = ""
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Tasks at once (default: cores).")] = None
    address: Annotated[
        str, typer.Option("--address", help="Of a cluster: tcp://host:8786 (Dask) or host:6379 (Ray).")
    ] = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """Where a report goes."""

    out: OutFolder = None
    json: JsonFlag = False


def reporting(command: Callable[..., Report]) -> Callable[..., None]:
    """A command that returns a report: with --out and --json, which save and print it.

    Dataclass parameters become options too, as :func:`spread` makes them.

    Example:
        >>> @reporting
        ... def show(name: str) -> Report:
        ...     raise NotImplementedError
        >>> list(inspect.signature(show).parameters)
        ['name', 'out', 'json']
    """
    plain = spread(command)
    own = list(inspect.signature(plain).parameters.values())

    @functools.wraps(command)
    def run(*, out: Path | None, json: bool, **options: Any) -> None:
        check_out(out)  # before any work is done
        emit_report(plain(**options), json=json, out=out)

    return _signed(run, own + _options(Output))


def parallel_options(command: Callable[..., R]) -> Callable[..., R]:
    """A command the options --backend, --workers and --address, and run it under that setting.

    Dataclass parameters become options too, as :func:`spread` makes them.

    Example:
        >>> @parallel_options
        ... def show(name: str) -> None:
        ...     print(name, execution.current())
        >>> list(inspect.signature(show).parameters)
        ['name', 'backend', 'workers', 'address']
        >>> show(name="scores", backend="dask", workers=2, address="")
        scores Parallel(backend='dask', workers=2, address='')
    """
    plain = spread(command)
    own = list(inspect.signature(plain).parameters.values())

    @functools.wraps(command)
    def run(*, backend: str, workers: int | None, address: str, **options: Any) -> R:
        with execution.parallel(backend, workers=workers, address=address):
            return plain(**options)

    return _signed(run, own + _options(Where))


def spread(command: Callable[..., R]) -> Callable[..., R]:
    """A command every field of its dataclass parameters as an option of its own.

    Typer reads signatures, so the fields stand in the parameter's place there; when the command is called they are
    put together again.

    Example:
        >>> @spread
        ... def show(name: str, where: Where) -> None:
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
    def run(**given: Any) -> R:
        for name, kind in groups.items():
            given[name] = kind(**{item.name: given.pop(item.name) for item in dataclasses.fields(kind)})
        return command(**given)

    return _signed(run, parameters)


def _signed(command: Callable[..., R], parameters: list[inspect.Parameter]) -> Callable[..., R]:
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command


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
