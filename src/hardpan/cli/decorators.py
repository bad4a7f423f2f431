"""Decorators of commands: what a command gets from its dataclasses, and where its report goes.

A command takes its Config as one parameter; :mod:`hardpan.cli.options` makes options and settings of its fields.
An error about a field or an argument names the option instead (:meth:`hardpan.errors.InputError.renamed`).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hardpan import execution
from hardpan.cli.common import check_out, emit_report
from hardpan.cli.options import EMPTY, Flags, Settings, option_parameter, option_parameters
from hardpan.errors import InputError
from hardpan.report import Report

if TYPE_CHECKING:
    from hardpan.data import Dataset


R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True)
class Where:
    """The options of :func:`hardpan.parallel`.

    Attributes:
        backend: where tasks run: threads, processes, dask or ray.
        workers: number of parallel tasks (default: number of cores).
        address: address of a cluster: tcp://host:8786 (Dask), host:6379 (Ray).
    """

    backend: str = ""
    workers: int | None = None
    address: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """Where a report goes.

    Attributes:
        out: write index.html, report.json and config.json to this folder.
        json: print the result as JSON on stdout, and nothing else.
    """

    out: Path | None = None
    json: bool = False

    def __post_init__(self) -> None:
        check_out(self.out)


def reporting(command: Callable[..., Report]) -> Callable[..., None]:
    """A command that returns a report: with --out and --json, which save and print it.

    Dataclass parameters become options too, as :func:`spread` makes them.

    Example:
        >>> @reporting
        ... def show(name: str) -> Report:
        ...     raise NotImplementedError
        >>> list(inspect.signature(show).parameters)
        ['name', 'context', 'out', 'json']
    """
    return _with_output(command, Output)


def printing(command: Callable[..., Report]) -> Callable[..., None]:
    """A command that returns a report: with --json; exit code 2 where a check did not pass (``ok`` is False).

    Dataclass parameters become options too, as :func:`spread` makes them.
    """
    return _with_output(command, Annotated[Output, Flags(without=("out",))])


def _with_output(command: Callable[..., Report], output_options: Any) -> Callable[..., None]:
    plain = getattr(command, "unspread", command)

    def run(*, output: Output, **values: Any) -> None:
        report = plain(**values)
        options: dict[str, Any] = {}
        for name, value in values.items():
            if dataclasses.is_dataclass(value):
                options |= {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
            else:
                options |= value if isinstance(value, dict) else {name: value}
        emit_report(report, json=output.json, out=output.out, options=options)
        if getattr(report, "ok", True) is False:
            raise typer.Exit(2)

    return spread(_with_option_group(run, plain, "output", output_options))


def parallel_options(command: Callable[..., R]) -> Callable[..., R]:
    """A command with the option --workers and the settings backend and address, which runs under them.

    Dataclass parameters become options too, as :func:`spread` makes them.

    Example:
        >>> @parallel_options
        ... def show(name: str) -> None:
        ...     print(name, execution.current())
        >>> list(inspect.signature(show).parameters)
        ['name', 'context', 'workers', 'set_', 'config_']
        >>> show(name="scores", workers="2", set_=["backend=processes"])
        scores Parallel(backend='processes', workers=2, address='')
    """
    plain = getattr(command, "unspread", command)

    def run(*, where: Where, **values: Any) -> R:
        if where == Where():  # as it is set around the command
            return plain(**values)
        with execution.parallel(where.backend, workers=where.workers, address=where.address):
            return plain(**values)

    return spread(_with_option_group(run, plain, "where", Annotated[Where, Flags(only=("workers",))]))


def spread(command: Callable[..., R]) -> Callable[..., R]:
    """A command whose dataclass parameters are options and settings, and whose errors name options.

    Typer reads signatures, so there the fields replace the parameter; when the command is called, the dataclass is
    made of them again.

    Example:
        >>> @spread
        ... def show(name: str, where: Where) -> None:
        ...     print(name, where)
        >>> list(inspect.signature(show).parameters)
        ['name', 'context', 'backend', 'workers', 'address', 'set_', 'config_']
        >>> show(name="scores", workers="2", set_=["backend=processes"])
        scores Where(backend='processes', workers=2, address='')
    """
    settings = Settings.of(command)

    @functools.wraps(command)
    def run(**values: Any) -> R:
        try:
            return command(**settings.arguments(values))
        except InputError as error:
            raise error.renamed(settings.option_names) from error.__cause__

    vars(run).update(unspread=command, settings=settings)
    return _command_with_signature(run, settings.parameters())


def _with_option_group(
    run: Callable[..., R], plain: Callable[..., Any], name: str, annotation: Any
) -> Callable[..., R]:
    """``run`` under the name of ``plain``, with its parameters and one more."""
    added = option_parameter(name, EMPTY, annotation)
    return _command_with_signature(functools.wraps(plain)(run), [*option_parameters(plain), added])


def _command_with_signature(command: Callable[..., R], parameters: list[inspect.Parameter]) -> Callable[..., R]:
    required = [item for item in parameters if item.default is EMPTY]
    optional = [item for item in parameters if item.default is not EMPTY]
    vars(command)["__signature__"] = inspect.Signature([*required, *optional])
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command


DATA_HELP = "A dataset: name (digits, mnist, ...), file or folder."


@dataclass(frozen=True, slots=True)
class DataFlags:
    """How a dataset is read; a command gets these options by :func:`hardpan.cli.decorators.spread`.

    Attributes:
        label: table: column with the labels.
        id: table: column with the ids of the examples.
        text: table: column with the texts; can be repeated.
        group: table: column with groups; it is not used as a feature.
        columns: table: column with a role, such as split=part; can be repeated.
        features: table: use only these columns.
        drop: table: ignore these columns.
        class_names: class names, or a text file with one name per line.
        resize: images: resize to this width and height in pixels.
        name: name of the dataset in the report.
        sample: table: read this many rows at random; an audit chooses it for tables larger than memory.
        encoder: train on vectors of images or texts: a folder or name of a model, an ONNX file, or module:function.
        download: fetch the model of --encoder from huggingface.co.
        encoder_device: "auto", "cpu", "cuda" or "cuda:N", for the model of --encoder.
        encoder_half: compute vectors in half precision.
        encoder_batch: examples that the encoder takes at a time.
    """

    label: str | None = None
    id: str | None = None
    text: tuple[str, ...] = ()
    group: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    resize: int | None = None
    name: str | None = None
    sample: int | None = None
    encoder: str | None = None
    download: bool = False
    encoder_device: str = "auto"
    encoder_half: bool = False
    encoder_batch: int = 64

    def options(self) -> dict[str, Any]:
        """The options that were set, as arguments of ``Dataset.open``."""
        from hardpan.data.tabular import DataOptions

        names = [item.name for item in dataclasses.fields(DataOptions)]
        options = {name: value for name in names if (value := getattr(self, name)) not in (None, (), {})}
        if len(self.class_names) == 1 and Path(self.class_names[0]).exists():
            options["class_names"] = self.class_names[0]
        if self.encoder is None:
            return options
        from hardpan.encoders import open_encoder

        encoder = open_encoder(
            self.encoder,
            download=self.download,
            device=self.encoder_device,
            half=self.encoder_half,
            batch=self.encoder_batch,
        )
        return options | {"encoder": encoder}

    def open(self, source: str, progress: execution.Progress | None = None) -> Dataset:
        """The dataset, read as the options say."""
        from hardpan.data import Dataset

        return Dataset.open(source, progress=progress, **self.options())

    def optional(self, source: str) -> Dataset | None:
        """The dataset; None if none is named."""
        return self.open(source) if source else None

    def apply(self, source: str, progress: execution.Progress | None = None) -> str | Dataset:
        """The source itself where no option is set (workers read it again by its name), else the opened dataset."""
        return self.open(source, progress) if self.options() else source


DATA_FLAGS = DataFlags()
Reading = Annotated[
    DataFlags, Flags(only=("label", "text", "group", "columns", "encoder"), names={"columns": "--column"})
]
