"""The ``hardpan`` command: parse, call one function, show what came back.

To add a command or a group of commands, write ``hardpan/cli/NAME.py`` with an ``app`` (:class:`typer.Typer`) and
add its line to ``COMMANDS``. The module is imported only when it is used, so that ``hardpan --help`` stays quick.
"""

from __future__ import annotations

import sys

try:
    import importlib
    import inspect
    import re
    from collections.abc import Sequence
    from typing import Annotated, Any

    import typer
    from typer.core import TyperCommand, TyperGroup

    import hardpan
    from hardpan.cli.streams import DISK_FAULTS, give_up_stdout, speak_any_encoding
    from hardpan.errors import HardpanError
except KeyboardInterrupt:  # Ctrl-C while the command still loads, before ``main`` could take it
    sys.exit(130)

COMMANDS = {
    "audit": "Audit a dataset: one command, one page.",
    "browse": "Look through every example of an audit in a browser.",
    "compare": "Audits side by side: two of them, or many ranked by hardness.",
    "bayes": "How low can the error go? Exact Bayes errors of Gaussian classes.",
    "floor": "How low can the error of real data go? Every estimate at once, and which survive.",
    "flow": "Flows with an exactly known Bayes error: fit, synthesize benchmarks, judge classifiers.",
    "confusion": "Which examples are hard? Scores, bands, subsets, transfer, ablation.",
    "experiments": "Follow-up studies that train models: re-tuning, training on part, cross-validation.",
    "leaderboard": "One test set: ranks with uncertainty, paired tests, items, suspect keys, short tests.",
    "ledger": "Sealed test sets that answer submissions by the Ladder.",
    "predictions": "Predictions recorded while training: import, verify, merge, export.",
    "replicate": "Rebuild a test set: pool, annotation, sampling, duplicates, assembly.",
    "testbed": "Will the score hold? Many models on two test sets.",
    "train": "Train classifiers and record what they predict after every epoch.",
}

# Newer versions of Typer carry their own copy of Click, so the base of its errors has no fixed address.
_CommandLineError: type[Any] = typer.BadParameter.__mro__[2]


class LazyGroup(TyperGroup):
    """A group that lists its commands from the registry and imports one when it is used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, summary in COMMANDS.items():
            self.add_command(TyperCommand(name, help=summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Put the real command in the place of its entry in the list."""
        name, entry, rest = super().resolve_command(ctx, args)
        if name is None or entry is None:
            return name, entry, rest
        command = typer.main.get_command(importlib.import_module(f"hardpan.cli.{name}").app)
        command.name = name
        # Completion is installed once, for the whole of hardpan; Typer would offer it again in every command.
        command.params = [item for item in command.params if not str(item.name).endswith("_completion")]
        _unwrap(command)
        return name, command, rest


def _unwrap(command: Any) -> None:
    """Let a terminal of any width break the lines of help; in the source they are broken for the reader of code."""
    if command.help:
        command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help))
    for inner in getattr(command, "commands", {}).values():
        _unwrap(inner)


app = typer.Typer(cls=LazyGroup, rich_markup_mode="rich")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hardpan {hardpan.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Audit classification benchmarks: how low can the error go, which examples are hard, will the score hold?

    Example: [bold]hardpan audit digits --out audits/digits[/bold]
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit 0 when done, 2 with one sentence for bad input, 130 for Ctrl-C, 1 for a bug."""
    speak_any_encoding()
    try:
        result = typer.main.get_command(app).main(arguments, prog_name="hardpan", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except _CommandLineError as error:
        sys.exit(_refuse_usage(error))
    except HardpanError as error:
        sys.exit(refuse(str(error)))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:  # whoever read this has gone, as `head` does
        give_up_stdout()
        sys.exit(1)
    except OSError as error:
        if error.errno not in DISK_FAULTS:
            raise
        give_up_stdout()
        where = error.filename or "the output"
        sys.exit(refuse(f"{where}: cannot be written ({error.strerror}); free some space, or give another place"))
    sys.exit(result if isinstance(result, int) else 0)


def refuse(message: str) -> int:
    """Print one sentence on stderr and give the exit code of refused input."""
    print("hardpan: " + " ".join(message.split()), file=sys.stderr)
    return 2


def _refuse_usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return refuse(error.format_message() + _given(error.__cause__) + hint)


def _given(cause: Any) -> str:
    """The refused value, where Typer keeps it to the error that made it refuse."""
    told = cause.errors() if hasattr(cause, "errors") else ()
    return f"; got {told[0]['input']!r}" if told and "input" in told[0] else ""
