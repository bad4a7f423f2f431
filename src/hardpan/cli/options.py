"""Options and settings of a command, from the fields of its Config or the arguments of a function.

A Config needs nothing but its docstring: names, types and defaults are those of the fields, the help is what its
``Attributes`` say. The same goes for a function and its ``Args``. The fields that :class:`Flags` lists are options;
``--set NAME=VALUE`` reaches every field, and ``--config FILE`` reads all of them from a saved config.json. Defaults
give way to the file, the file to options and ``--set``.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
import os
import re
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from hardpan import arguments, files, lazy
from hardpan.cli.common import CommandOptions
from hardpan.errors import InputError

EMPTY = inspect.Parameter.empty
_SET, _CONFIG = "set_", "config_"  # the parameters of --set and --config
_SEVERAL = (tuple, list, Sequence)
_OUTPUT = ("out", "json")  # say where a result goes, and are no settings

# Fields that mean the same in every Config have one help text.
_SHARED_HELP = {
    "seed": "Random seed: the same seed gives the same result, unless time ends a step.",
    "confidence": "Confidence level of the intervals, between 0 and 1.",
    "budget": "Wall-clock time for training, such as 90s, 3m or 1h.",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Flags:
    """Which fields of a Config are options of a command, as ``Annotated[Config, Flags(...)]``.

    Or which arguments of a function, as ``Annotated[dict[str, Any], Flags(of=function)]``: those with a default, or
    that must be named, without ``progress``; the command gets the values to call it with.

    Attributes:
        of: the function, where there is no Config.
        only: these fields are options, and --set reaches the others; all are if empty.
        without: neither options nor settings, because the command itself sets them.
        names: options that are not called like their field, such as ``{"batch_size": "--batch"}``.
        repeated: fields of several texts that may hold commas: the option is repeated for each.
    """

    of: Callable[..., Any] | None = None
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    repeated: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A field, an argument or an option of the command itself, that the command line can set.

    Attributes:
        name: of the field.
        hint: its type.
        default: its value if nothing sets it.
        option: how people write it, such as ``--seed``; ``--set seed`` where it is no option.
        help: what its docstring says.
        repeated: whether it takes several texts as they are.
    """

    name: str
    hint: Any
    default: Any
    option: str
    help: str = ""
    repeated: bool = False

    @property
    def is_option(self) -> bool:
        """Whether it has an option of its own."""
        return not self.option.startswith("--set ")

    def parse(self, value: Any, option: str) -> Any:
        """The value of a field, from the text or texts after an option, or after --set; a switch is one."""
        if isinstance(value, bool):
            return value
        texts = [value] if isinstance(value, str) else value
        if self.name == "budget":
            return arguments.seconds(option, texts[-1])
        parsed = parse_option(option, self.hint, texts, repeated=self.repeated)
        return arguments.whole_number(option, parsed) if self.name == "seed" and parsed is not None else parsed

    def parameter(self) -> inspect.Parameter:
        """What Typer makes an option of: a text, several texts, or a switch."""
        kind, name, text = _option_kinds(self.hint)[0], self.option, self.help
        default: Any = _option_default_text(self) or None
        hint: Any = {bool: bool}.get(kind, list[str] if get_origin(kind) in (*_SEVERAL, Mapping) else str)
        show_default: Any = True
        if hint is bool:
            default = self.default
            name += f"/--no-{name.removeprefix('--')}" if default is True else ""
        elif hint is not str:
            default, show_default = None, default or False
            text = f"{text.rstrip('.')}; can be repeated." if self.repeated else text
        metavar = None if hint is bool else _option_metavar(name, kind, self.repeated)
        option = typer.Option(name, help=text, metavar=metavar, show_default=show_default)
        if self.default is EMPTY:
            return option_parameter(self.name, EMPTY, Annotated[hint, option])
        return option_parameter(self.name, default, Annotated[hint | None, option])


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a command.

    Attributes:
        own: parameters of the command itself.
        groups: for each dataclass or function, what makes it and its settings.
        fixed: fields that the command itself sets.
    """

    own: list[inspect.Parameter]
    groups: dict[str, tuple[Callable[..., Any], list[Setting]]]
    fixed: set[str]

    @classmethod
    def of(cls, command: Callable[..., Any]) -> Settings:
        """The settings of a function with dataclass parameters."""
        own, groups, fixed = [], {}, set()
        for item in option_parameters(command):
            kind, extras = _split_annotated_option(item.annotation)
            flags = next((extra for extra in extras if isinstance(extra, Flags)), Flags())
            if flags.of is not None or dataclasses.is_dataclass(kind):
                fixed |= set(flags.without)
                groups[item.name] = (dict if flags.of is not None else kind), _settings_of_config(kind, flags)
            else:
                own.append(item)
        return cls(own, groups, fixed)

    def fields(self) -> Iterator[Setting]:
        """The settings of all groups."""
        for _, settings in self.groups.values():
            yield from settings

    @property
    def by_name(self) -> dict[str, Setting]:
        """What --set and --config can set: fields, and the command's own options."""
        own = [
            Setting(item.name, _split_annotated_option(item.annotation)[0], item.default, option_name(item))
            for item in self.own
        ]
        usable = [item for item in (*own, *self.fields()) if item.option[:1] == "-" and item.name not in _OUTPUT]
        # Of a name that two groups have, the option decides how it is written.
        return {item.name: item for item in sorted(usable, key=lambda item: item.is_option)}

    @property
    def option_names(self) -> dict[str, str]:
        """How people write each name of a parameter or field."""
        own = {item.name: option_name(item) for item in self.own}
        names = own | {item.name: item.option for item in (*self.fields(), *self.by_name.values())}
        return {name.strip("-").replace("-", "_"): name for name in names.values() if name[:2] == "--"} | names

    def parameters(self) -> list[inspect.Parameter]:
        """The signature that Typer reads."""
        options = [item.parameter() for item in self.fields() if item.is_option]
        own = [*self.own, option_parameter("context", None, typer.Context)]
        names = sorted(item.name for item in self.by_name.values() if not item.is_option)
        configs = [fields for make, fields in self.groups.values() if make is not dict]
        if not names and not any(item.name not in _OUTPUT for fields in configs for item in fields):
            return [*own, *options]
        listed = f"Another setting: {', '.join(names)}" if names else "A setting by its name"
        set_option = typer.Option(
            "--set", metavar="NAME=VALUE", help=f"{listed}; can be repeated.", autocompletion=self._complete
        )
        config_option = typer.Option("--config", metavar="FILE", help="Settings of a saved config.json.")
        return [
            *own,
            *options,
            option_parameter(_SET, None, Annotated[list[str] | None, set_option]),
            option_parameter(_CONFIG, None, Annotated[Path | None, config_option]),
        ]

    def _complete(self, incomplete: str) -> list[tuple[str, str]]:
        names = sorted(self.by_name.items())
        return [(f"{name}=", item.help) for name, item in names if name.startswith(incomplete)]

    def arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the command, from what Typer read."""
        texts, path, context = values.pop(_SET, None) or (), values.pop(_CONFIG, None), values.pop("context", None)
        typed = {name for name, value in values.items() if _is_option_typed(context, name, value)}
        values_by_name = {
            item.name: item.parse(values[item.name], item.option) for item in self.fields() if item.name in typed
        }
        values_by_name |= {item.name: values[item.name] for item in self.own if item.name in typed}
        values_by_name |= self._set(texts, typed)
        changed = {} if path is None else self._saved(path, values_by_name)
        changed |= values_by_name
        result = {item.name: changed.get(item.name, values.get(item.name, item.default)) for item in self.own}
        for name, (make, fields) in self.groups.items():
            result[name] = make(**{item.name: changed.get(item.name, item.default) for item in fields})
        return result

    def _set(self, items: Sequence[str], typed: Collection[str]) -> dict[str, Any]:
        """The values of --set."""
        settings = self.by_name
        texts: dict[str, list[str]] = {}
        for item in items:
            name, text = parse_assignment("--set", item, "NAME=VALUE")
            name = name.replace("-", "_")
            if name not in settings:
                near = difflib.get_close_matches(name, settings, n=3, cutoff=0.5)
                expected = f"did you mean {' or '.join(near)}?" if near else f"one of {', '.join(sorted(settings))}"
                raise InputError(f"has no setting {name!r}; {expected}", argument="--set")
            if name in typed:
                raise InputError(
                    "set the same; give one of them", argument=(settings[name].option, f"--set {name}")
                )
            texts.setdefault(name, []).append(text)
        return {name: settings[name].parse(values, f"--set {name}") for name, values in texts.items()}

    def _saved(self, path: Path, given: Collection[str]) -> dict[str, Any]:
        """The values of --config but those ``given``; arguments and where a result goes are the command line's.

        A file may come from anyone, so a value that could be imported is refused.
        """
        saved, settings = _options_of_config_file(path), self.by_name
        others = self.fixed.union(_OUTPUT, (item.name for item in self.own))
        for name in sorted(saved.keys() - settings.keys() - others):
            raise InputError(f"{path}: has {name!r}, which is no setting of this command", argument="--config")
        values = {}
        for name in saved.keys() & settings.keys() - given:
            setting, value = settings[name], saved[name]
            code = next(filter(lazy.is_import_name, _words_of_option(value)), None)
            if code is not None:
                raise InputError(
                    f"{path}: sets {name} to {code!r}; code is not imported because a file names it: name it on "
                    f"the command line, too ({setting.option}), if you trust it",
                    argument="--config",
                )
            if setting.hint is str and isinstance(value, tuple):  # an option of the command, as people write it
                value = ",".join(map(str, value))
            values[name] = setting.parse(value, "--config") if isinstance(value, str) else value
        return values


def _words_of_option(value: Any) -> Iterator[str]:
    """The texts in a value, and what stands between their commas."""
    if isinstance(value, str):
        yield from (word.strip() for word in value.split(","))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _words_of_option(item)


def _options_of_config_file(path: Path) -> dict[str, Any]:
    """The settings in a config.json, or in the report.json of a result that has them."""
    try:
        saved = files.load(path)
    except InputError as error:
        raise InputError(str(error), argument="--config") from error
    config = getattr(saved, "config", None) or saved
    if isinstance(config, CommandOptions):
        return dict(config.options)
    return {item.name: getattr(config, item.name) for item in dataclasses.fields(config)}


def _settings_of_config(kind: Any, flags: Flags) -> list[Setting]:
    """The fields of a dataclass, or the arguments of a function, that can be set."""
    if flags.of is None:
        hints = get_type_hints(kind)
        fields = [
            option_parameter(item.name, _field_default(item), hints[item.name]) for item in dataclasses.fields(kind)
        ]
    else:
        fields = option_parameters(
            flags.of,
            lambda item: (
                item.name != "progress"
                and (item.default is not EMPTY or item.kind is item.KEYWORD_ONLY or item.name in flags.only)
            ),
        )
    helps = option_help(flags.of or kind) | _SHARED_HELP
    results = []
    for item in fields:
        is_option = not flags.only or item.name in flags.only
        if item.name in flags.without or (item.default is EMPTY and not is_option):
            continue
        option = (flags.names.get(item.name) or _option_of(item.name)) if is_option else f"--set {item.name}"
        repeated = item.name in flags.repeated
        results.append(
            Setting(item.name, item.annotation, item.default, option, helps.get(item.name, ""), repeated)
        )
    return results


def _field_default(item: dataclasses.Field[Any]) -> Any:
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return EMPTY if item.default is dataclasses.MISSING else item.default


def _option_of(name: str) -> str:
    return "--" + name.strip("_").replace("_", "-")


def option_parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    """A parameter of a command that may be named."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def option_parameters(
    command: Callable[..., Any], wanted: Callable[[inspect.Parameter], bool] = lambda item: True
) -> list[inspect.Parameter]:
    """The parameters of a function, with types instead of the texts that annotations are."""
    results = []
    for item in filter(wanted, inspect.signature(command).parameters.values()):
        # One by one: others may name types that are imported for type checkers only.
        hint = types.SimpleNamespace(__annotations__={item.name: item.annotation})
        hints = get_type_hints(hint, vars(inspect.getmodule(command)), include_extras=True)
        results.append(option_parameter(item.name, item.default, hints[item.name]))
    return results


def _split_annotated_option(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type, and what ``Annotated`` adds to it."""
    if get_origin(annotation) is not Annotated:
        return annotation, ()
    kind, *extras = get_args(annotation)
    return kind, tuple(extras)


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
    return _option_of(parameter.name)


def _is_option_typed(context: Any, name: str, value: Any) -> bool:
    """Whether people typed an option; without Typer, whether it has a value."""
    if context is None:
        return value is not None
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _option_kinds(hint: Any) -> list[Any]:
    """The type that a text is read as, and None if it may be; of several types a path or the text itself.

    Example:
        >>> _option_kinds(str | os.PathLike[str] | None), _option_kinds(str | Sequence[str]), _option_kinds(float)
        ([<class 'pathlib.Path'>, <class 'NoneType'>], [<class 'str'>], [<class 'float'>])
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    others = [kind for kind in kinds if kind is not type(None)]
    if any(kind is Path or get_origin(kind) is os.PathLike for kind in others):
        others = [Path]
    return (others if len(others) == 1 else [str]) + [type(None)] * (type(None) in kinds)


_TEXTS: Mapping[Any, tuple[str, str]] = {  # how the help and how an error message write a text of a type
    int: ("INTEGER", "a whole number"),
    float: ("FLOAT", "a number"),
    bool: ("", "true or false"),
    Path: ("PATH", "a path"),
}


def _option_metavar(option: str, kind: Any, repeated: bool) -> str:
    """How the help writes the text of an option."""
    if repeated:
        return option.strip("-").upper()
    if get_origin(kind) in _SEVERAL:
        return "A,B,..." if get_args(kind)[0] is str else "1,2,..."
    return "NAME=VALUE" if get_origin(kind) is Mapping else _TEXTS.get(kind, ("TEXT",))[0]


def _expected_text_of_option(kind: Any) -> str:
    """What a text should be, in an error message."""
    if get_origin(kind) in _SEVERAL:
        return "whole numbers, such as 500,2000" if get_args(kind)[0] is int else "numbers, such as 0.2,1,3"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    return _TEXTS.get(kind, ("", "text"))[1]


def _option_default_text(setting: Setting) -> str:
    """A default as the help shows it; empty for none."""
    value = setting.default
    if value is EMPTY or (not value and value != 0) or value is False:
        return ""
    if setting.name == "budget" and value >= 60:
        return f"{value / 60:g}m"
    if isinstance(value, (tuple, list)):
        return ",".join(f"{item:g}" if isinstance(item, float) else str(item) for item in value)
    return f"{value:.3g}" if isinstance(value, float) and len(repr(value)) > 8 else str(value)


def parse_option(option: str, hint: Any, texts: Sequence[str], *, repeated: bool = False) -> Any:
    """The value of a type that people wrote as one text, or as several by repeating the option.

    Several values have commas between them, or are texts of their own if ``repeated``; "none" is no value.

    Example:
        >>> parse_option("--sizes", tuple[int, ...], ["500, 2000"]), parse_option("--rate", float | None, ["none"])
        ((500, 2000), None)
        >>> parse_option("--option", Mapping[str, Any], ["width=7", "stem=small"])
        {'width': 7, 'stem': 'small'}
        >>> parse_option("--set balanced", bool, ["yes"])
        Traceback (most recent call last):
            ...
        hardpan.errors.InputError: --set balanced must be true or false; got 'yes'
    """
    kind, *none = _option_kinds(hint)
    if none and [text.strip().lower() for text in texts] == ["none"]:
        return None
    if get_origin(kind) is Mapping:
        pairs = [parse_assignment(option, text, "width=64") for text in texts]
        return {name: _parse_option_text(get_args(kind)[1], text) for name, text in pairs}
    if get_origin(kind) not in _SEVERAL and len(texts) > 1:
        raise InputError(f"must be given once; got {' and '.join(texts)}", argument=option)
    try:
        if get_origin(kind) in _SEVERAL:
            words = texts if repeated else [word.strip() for text in texts for word in text.split(",")]
            element = get_args(kind)[0]
            if words == ["none"] or (element is str and not repeated):
                words = [word for word in words if word not in ("", "none")]
            return tuple(_parse_option_text(element, word) for word in words)
        return _parse_option_text(kind, texts[0])
    except (KeyError, ValueError):
        or_none = " or none" if none else ""
        raise InputError(
            f"must be {_expected_text_of_option(kind)}{or_none}; got {','.join(texts)!r}", argument=option
        ) from None


def _parse_option_text(kind: Any, text: str) -> Any:
    """A text as a value of one type (else KeyError or ValueError); of other types, JSON or the text."""
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    if get_origin(kind) is Literal:
        return {str(value): value for value in get_args(kind)}[text]
    if kind in (int, float, str, Path):
        return kind(text)
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_assignment(option: str, text: str, example: str) -> tuple[str, str]:
    """A text NAME=VALUE as name and value.

    Example:
        >>> parse_assignment("--frequency", "top=0.73", "NAME=0.73")
        ('top', '0.73')
    """
    name, _, value = text.partition("=")
    if not name.strip() or not value:
        raise InputError(f"must be like {example}; got {text!r}", argument=option)
    return name.strip(), value


def option_help(kind: Any) -> dict[str, str]:
    """The help of each option: plain text of what a docstring says of the fields of a dataclass or the arguments.

    Example:
        >>> option_help(Flags)["without"]
        'Neither options nor settings, because the command itself sets them.'
    """
    entries: dict[str, str] = {}
    for item in reversed(inspect.getmro(kind)) if isinstance(kind, type) else [kind]:
        sections = re.split(r"(?m)^(?:Attributes|Args):\n", inspect.cleandoc(item.__doc__ or ""))
        entries |= re.findall(r"(?m)^ {4}(\w+): (.+(?:\n {8}.+)*)", "".join(sections[1:]))
    helps = {}
    for name, text in entries.items():
        joined = re.sub(r"; in Python also .*?(?=\.$)", "", " ".join(text.split()))
        plain = re.sub(r":\w+:`[~.]?([^`]*)`|[`\"]", r"\1", joined)
        # It begins with a capital, unless it begins with a value that people type.
        helps[name] = plain if joined[0] in '`"λ' else plain[:1].upper() + plain[1:]
    return helps
