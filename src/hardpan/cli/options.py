"""Options from dataclasses and functions: a command has one parameter for all of them.

A Config needs nothing but its docstring: names, types and defaults of the options are those of the fields, and the
help is what its ``Attributes`` say. The same goes for the arguments of a function and its ``Args``. A dataclass of
options that only the command line has annotates its fields with ``typer.Option`` itself.

An error about a field or an argument names the option instead (:meth:`hardpan.errors.InputError.renamed`).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import typer

from hardpan import execution
from hardpan.cli.common import (
    Confidence,
    JsonFlag,
    OutFolder,
    Seed,
    check_out,
    emit_report,
    floats,
    name_and_value,
    whole_numbers,
)
from hardpan.errors import InputError
from hardpan.report.base import Report

R = TypeVar("R")
EMPTY = inspect.Parameter.empty


# Fields that mean the same in every Config have one help text.
_SHARED: Mapping[str, Any] = {"seed": Seed, "confidence": Confidence}


@dataclasses.dataclass(frozen=True, slots=True)
class Flags:
    """Which fields of a Config are options of a command, as ``Annotated[Config, Flags(...)]``.

    Or which arguments of a function, as ``Annotated[dict[str, Any], Flags(of=function)]``: those with a default, or
    that must be named, without ``progress``; the command gets the values to call it with.

    Attributes:
        of: the function, where there is no Config.
        only: these fields; all if empty.
        without: not these.
        names: options that are not called like their field, such as ``{"batch_size": "--batch"}``.
        defaults: defaults that are not those of the field.
        repeated: fields of several texts that may hold commas: the option is repeated for each.
    """

    of: Callable[..., Any] | None = None
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    repeated: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Where:
    """The options of :func:`hardpan.parallel`."""

    backend: Annotated[str, typer.Option("--backend", help="Where tasks run: threads, processes, dask or ray.")] = (
        ""
    )
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Number of parallel tasks (default: number of cores).")
    ] = None
    address: Annotated[
        str, typer.Option("--address", help="Address of a cluster: tcp://host:8786 (Dask), host:6379 (Ray).")
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

    def run(*, out: Path | None, json: bool, **options: Any) -> None:
        check_out(out)  # before any work is done
        emit_report(plain(**options), json=json, out=out, options=options)

    return _extended(plain, run, _options(Output))


def printing(command: Callable[..., Report]) -> Callable[..., None]:
    """A command that returns a report: with --json; exit code 2 where a check did not pass (``ok`` is False).

    Dataclass parameters become options too, as :func:`spread` makes them.
    """
    plain = spread(command)

    def run(*, json: bool, **options: Any) -> None:
        report = plain(**options)
        emit_report(report, json=json)
        if getattr(report, "ok", True) is False:
            raise typer.Exit(2)

    return _extended(plain, run, _options(Output, Flags(only=("json",))))


def parallel_options(command: Callable[..., R]) -> Callable[..., R]:
    """A command with the options --backend, --workers and --address, which runs under that setting.

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

    def run(*, backend: str, workers: int | None, address: str, **options: Any) -> R:
        try:
            with execution.parallel(backend, workers=workers, address=address):
                return plain(**options)
        except InputError as error:
            raise error.renamed({name: f"--{name}" for name in ("backend", "address")}) from error.__cause__

    return _extended(plain, run, _options(Where))


def spread(command: Callable[..., R]) -> Callable[..., R]:
    """A command with every field of its dataclass parameters as an option of its own, and errors that name options.

    Typer reads signatures, so there the fields replace the parameter; when the command is called, the dataclass is
    made of them again.

    Example:
        >>> @spread
        ... def show(name: str, where: Where) -> None:
        ...     print(name, where.backend, where.workers)
        >>> list(inspect.signature(show).parameters)
        ['name', 'backend', 'workers', 'address']
        >>> show(name="scores", backend="dask", workers=2, address="")
        scores dask 2
    """
    groups: dict[str, tuple[Any, list[_Option]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, hint in get_type_hints(command, include_extras=True).items():
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        flags = next((item for item in get_args(hint)[1:] if isinstance(item, Flags)), Flags())
        if flags.of is not None or dataclasses.is_dataclass(kind):
            groups[name] = dict if flags.of is not None else kind, _options(kind, flags)
            parameters += [option.parameter for option in groups[name][1]]
        elif name != "return":
            parameters.append(inspect.signature(command).parameters[name].replace(annotation=hint))
    options_of = {option.strip("-").replace("-", "_"): option for option in map(option_name, parameters)}
    options_of |= {item.name: option_name(item) for item in parameters}

    @functools.wraps(command)
    def run(**values: Any) -> R:
        try:
            for name, (kind, options) in groups.items():
                values[name] = kind(**{item.name: item.read(values.pop(item.name)) for item in options})
            return command(**values)
        except InputError as error:
            raise error.renamed(options_of) from error.__cause__

    return _signed(run, parameters)


def option_name(parameter: inspect.Parameter) -> str:
    """How people write a parameter of a command: its option, or its name in the usage line."""
    for item in get_args(parameter.annotation)[1:]:
        if isinstance(item, typer.models.ArgumentInfo):
            return item.metavar or parameter.name.upper()
        # In an annotation Typer stores the first name where a default would be.
        names = (getattr(item, "default", None), *(getattr(item, "param_decls", None) or ()))
        declared = next((name for name in names if isinstance(name, str) and name.startswith("-")), "")
        if declared:
            return declared.partition("/")[0]
    return "--" + parameter.name.replace("_", "-")


def _extended(plain: Callable[..., Any], run: Callable[..., R], options: list[_Option]) -> Callable[..., R]:
    """``run`` under the name of ``plain``, with its parameters and further options."""
    parameters = list(inspect.signature(plain).parameters.values())
    return _signed(functools.wraps(plain)(run), parameters + [option.parameter for option in options])


def _signed(command: Callable[..., R], parameters: list[inspect.Parameter]) -> Callable[..., R]:
    required = [item for item in parameters if item.default is EMPTY]
    optional = [item for item in parameters if item.default is not EMPTY]
    vars(command)["__signature__"] = inspect.Signature([*required, *optional])
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command


@dataclasses.dataclass(frozen=True, slots=True)
class _Option:
    """A parameter that Typer understands, and what makes the field's value of the option's."""

    parameter: inspect.Parameter
    read: Callable[[Any], Any]

    @property
    def name(self) -> str:
        return self.parameter.name


def _options(kind: Any, flags: Flags | None = None) -> list[_Option]:
    flags = flags or Flags()
    listed = _fields(kind) if flags.of is None else _arguments(flags.of, flags.only)
    helps = attribute_help(kind if flags.of is None else flags.of)
    return [
        _option(item, helps.get(item.name, ""), flags)
        for item in listed
        if item.name not in flags.without and (not flags.only or item.name in flags.only)
    ]


def _fields(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    results = []
    for item in dataclasses.fields(kind):
        default = item.default_factory() if item.default_factory is not dataclasses.MISSING else item.default
        default = EMPTY if default is dataclasses.MISSING else default
        results.append(_parameter(item.name, default, hints[item.name]))
    return results


def _arguments(function: Callable[..., Any], only: Sequence[str]) -> list[inspect.Parameter]:
    """The arguments that can be options, with types instead of the texts that annotations are."""
    results = []
    for item in inspect.signature(function).parameters.values():
        named = item.default is not EMPTY or item.kind is inspect.Parameter.KEYWORD_ONLY or item.name in only
        if named and item.name != "progress":
            # One by one: others may name types that are imported for type checkers only.
            hint = types.SimpleNamespace(__annotations__={item.name: item.annotation})
            hints = get_type_hints(hint, vars(inspect.getmodule(function)), include_extras=True)
            results.append(_parameter(item.name, item.default, hints[item.name]))
    return results


def _plain(hint: Any) -> Any:
    """A type that Typer understands: of several, a path or a text; a text for a few texts.

    Example:
        >>> _plain(str | os.PathLike[str] | None) == Path | None, _plain(Literal["a", "b"]), _plain(float | None)
        (True, <class 'str'>, float | None)
    """
    if get_origin(hint) is Literal:
        return str  # the Config refuses other texts, with its own message
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    kinds = [item for item in get_args(hint) if item is not type(None)]
    if any(item is Path or get_origin(item) is os.PathLike for item in kinds):
        kind: Any = Path
    else:
        kind = kinds[0] if len(kinds) == 1 else str
    return kind | None if type(None) in get_args(hint) and get_origin(kind) is None else kind


def _option(item: inspect.Parameter, text: str, flags: Flags) -> _Option:
    default, hint = flags.defaults.get(item.name, item.default), item.annotation
    if get_origin(hint) is not Annotated and item.name in _SHARED:
        hint = _SHARED[item.name]
    if get_origin(hint) is Annotated:
        return _Option(_parameter(item.name, default, hint), _unchanged)
    hint = _plain(hint)
    name = flags.names.get(item.name, _flag(item.name))
    if hint is bool and default:
        name = f"{name}/--no-{name.removeprefix('--')}"
    if get_origin(hint) not in (tuple, Sequence, Mapping):
        short: Any = f"{default:.3g}" if isinstance(default, float) and len(repr(default)) > 8 else True
        option = typer.Option(name, help=text, show_default=short)
        return _Option(_parameter(item.name, default, Annotated[hint, option]), _unchanged)
    read, metavar = _reader(name, hint, item.name in flags.repeated)
    if item.name in flags.repeated:
        text = f"{text.rstrip('.')}; can be repeated."
    values = default or ()
    example: Any = ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values) or False
    option = typer.Option(name, help=text, metavar=metavar, show_default=example)
    return _Option(
        _parameter(item.name, None, Annotated[list[str] | None, option]),
        lambda texts: read(texts) if texts else default,
    )


def _flag(name: str) -> str:
    return "--" + name.strip("_").replace("_", "-")


def _unchanged(value: Any) -> Any:
    return value


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _reader(name: str, hint: Any, repeated: bool) -> tuple[Callable[[list[str]], Any], str | None]:
    """What makes a tuple or mapping of the texts of an option, and how the help writes such a text."""
    if get_origin(hint) is Mapping:
        return functools.partial(named_values, name), "NAME=VALUE"
    if repeated:
        return tuple, name.strip("-").upper()
    kind = get_args(hint)[0]
    if kind is str:
        return words, "A,B,..."
    parse = floats if kind is float else whole_numbers
    return lambda texts: parse(name, ",".join(texts)), "1,2,..."


def attribute_help(kind: Any) -> dict[str, str]:
    """The help of each option: what a docstring says of the fields of a dataclass or the arguments of a function.

    Example:
        >>> attribute_help(Flags)["only"]
        'These fields; all if empty.'
    """
    sections = re.split(r"(?m)^(?:Attributes|Args):\n", inspect.cleandoc(kind.__doc__ or ""))
    entries = re.findall(r"(?m)^ {4}(\w+): (.+(?:\n {8}.+)*)", "".join(sections[1:]))
    return {name: _sentence(text, {name for name, _ in entries}) for name, text in entries}


def _sentence(text: str, fields: Collection[str]) -> str:
    """Plain text of a docstring, without markup, quotes and what is for Python only; other fields are options.

    It begins with a capital, unless it begins with a value that people type.
    """
    text = re.sub(r"``(\w+)``", lambda match: _flag(match[1]) if match[1] in fields else match[0], text)
    joined = re.sub(r"; in Python also .*?(?=\.$)", "", " ".join(text.split()))
    plain = re.sub(
        r":\w+:`[~.]?([^`]*)`|``([^`]*)``|\"([^\"]*)\"", lambda match: "".join(filter(None, match.groups())), joined
    )
    return plain if joined[0] in '`"λ' else plain[:1].upper() + plain[1:]


def words(texts: Sequence[str]) -> tuple[str, ...]:
    """Names with commas between them, of an option that may be repeated; "none" for no name.

    Example:
        >>> words(["tree, gaussian", "votes"]), words(["none"])
        (('tree', 'gaussian', 'votes'), ())
    """
    names = tuple(word.strip() for text in texts for word in text.split(",") if word.strip())
    return () if names == ("none",) else names


def named_values(option: str, items: Sequence[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE settings; values are JSON where they can be, else text.

    Example:
        >>> named_values("--option", ["width=7", "stem=small"])
        {'width': 7, 'stem': 'small'}
    """
    results: dict[str, Any] = {}
    for item in items or ():
        name, value = name_and_value(option, item, "width=64")
        try:
            results[name] = json.loads(value)
        except ValueError:
            results[name] = value
    return results
