"""The ``hardpan`` command: parse, call one function, show the result.

To add a command or a group of commands, write ``hardpan/cli/NAME.py`` with an ``app`` (:class:`typer.Typer`) and
add its line to ``COMMANDS``. The module is imported only when it is used, so that ``hardpan --help`` stays fast.
"""

from __future__ import annotations

import sys

try:
    import codecs
    import errno
    import importlib
    import inspect
    import io
    import json
    import os
    import re
    import traceback
    from collections.abc import Sequence
    from typing import Annotated, Any

    import typer
    from typer.core import TyperCommand, TyperGroup

    import hardpan
    from hardpan.errors import FULL_DISK, HardpanError
except KeyboardInterrupt:  # Ctrl-C while the command is still loading
    sys.exit(130)

COMMANDS = {
    "audit": "What is wrong with this benchmark? Problems, lowest possible error, hard examples.",
    "browse": "Look at every example of an audit in a browser, tag and relabel.",
    "compare": "Compare audits: before and after cleaning, or several datasets by difficulty.",
    "bayes": "Bayes errors of Gaussian classes, computed exactly or to a given accuracy.",
    "floor": "How low can the error go on real data? Bounds, and estimates with their assumptions.",
    "flow": "Flows with a known Bayes error: fit them, synthesize benchmarks, judge classifiers.",
    "confusion": "Which examples are hard, which labels do models contradict? Scores, error by band, subsets.",
    "gate": "Is a new run worse than the baseline? Pass, fail or cannot tell, for CI.",
    "leaderboard": "Which models are better? Ranks, items, suspect answer keys, short tests.",
    "ledger": "A sealed test set: score submissions without revealing labels (the Ladder).",
    "predictions": "Stores of predictions: import, check, merge, export.",
    "replicate": "Build a new test set: candidates, annotation, sampling, duplicates, assembly.",
    "testbed": "Will the score hold on fresh data? Many models on two test sets.",
    "train": "Train classifiers and record their predictions after every epoch (needs torch).",
}

_MODULES = (*COMMANDS, "look")

# Groups and commands that were removed: what to use instead.
REMOVED = {
    "experiments": "reproductions/followups.py of a checkout",
    "floor estimate": "hardpan floor DATA",
    "floor bench": "make bench TOPIC=floor in a checkout",
    "bayes temperature": "hardpan bayes gaussian --error",
    "bayes detail": "hardpan bayes gaussian --detail",
    "confusion bands": "hardpan confusion score --only bands",
    "confusion issues": "hardpan confusion score --only issues",
    "confusion ablate": "hardpan confusion score --only ablation",
    "confusion compare": "hardpan confusion score --only comparison; of several models, hardpan confusion transfer",
    "flow curve": "hardpan flow judge FLOW --sizes 500,2000,8000",
    "ledger status": "hardpan LEDGER",
    "leaderboard compare": "hardpan gate BASELINE CANDIDATE; of all pairs, hardpan leaderboard rank LOGS",
    "leaderboard inflation": "hardpan leaderboard predict LOGS REFERENCE",
    "leaderboard agreement": "hardpan leaderboard predict OLD NEW --labels LABELS",
    "predictions info": "hardpan predictions check PREDICTIONS",
    "predictions verify": "hardpan predictions check PREDICTIONS",
    "replicate subclasses": "hardpan replicate add PROJECT SOURCE --per-class N",
    "replicate votes": "hardpan replicate status PROJECT --export-votes FILE, or --import-votes FILE",
    "replicate frequencies": "hardpan replicate status PROJECT --frequencies FILE",
    "replicate threshold-sweep": "hardpan replicate status PROJECT --frequencies FILE, hardpan replicate sample",
    "replicate review": "the pages of hardpan replicate serve, then hardpan replicate duplicates",
    "testbed fit": "hardpan testbed compare, which prints the line; --sigma gives the new set's difficulty",
    "testbed scale": "hardpan testbed compare --scale probit, whose line relates skills on the two sets",
    "testbed shared-errors": "hardpan testbed compare --pairs all, hardpan testbed explain SCORES --only hardest",
    "testbed pairs": "hardpan testbed compare --pairs all, or --pairs neighbours",
    "testbed decompose": "hardpan testbed explain SCORES --only decompose",
    "testbed hardest": "hardpan testbed explain SCORES --only hardest",
    "testbed duplicates": "hardpan testbed explain SCORES --examples TABLE --only duplicates",
    "testbed balanced": "hardpan testbed explain SCORES --examples TABLE --only balanced",
    "testbed breakdown": "hardpan testbed explain SCORES --examples TABLE --by COLUMN --only breakdown",
    "testbed humans": "hardpan testbed explain --people TABLE --only humans",
    "testbed discriminate": "reproductions/discrimination.py, in a checkout of the repository",
    "testbed strategies": "hardpan testbed compare for each of the new test sets",
    "testbed crossval": "python -m reproductions.followups crossval, in a checkout of the repository",
}

# Commands that resume when the same command line is run again; some only with --out.
RESUMABLE: tuple[str, ...] = (
    *("audit", "train", "flow fit", "flow synthesize", "predictions import", "predictions merge"),
    *("replicate add", "replicate tasks", "replicate duplicates"),
)
RESUMABLE_WITH_OUT = ("flow judge",)
BUG, INTERRUPTED, BROKEN_PIPE = 70, 130, 141

# Newer versions of Typer have their own copy of Click, so the module of its base error differs.
_CommandLineError: type[Any] = typer.BadParameter.__mro__[2]


class LazyGroup(TyperGroup):
    """A group that lists its commands from the registry and imports one when it is used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, summary in COMMANDS.items():
            self.add_command(TyperCommand(name, help=summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Replace the entry of the list by the real command."""
        for words, replacement in REMOVED.items():
            if args[: len(words.split())] == words.split():
                typer.echo(f"hardpan {words} was removed; use {replacement}", err=True)
                raise typer.Exit(2)
        name: str | None = "look"
        rest = args
        if not _is_source(args[0]):
            name, entry, rest = super().resolve_command(ctx, args)
            if name is None or entry is None:
                return name, entry, rest
        command = typer.main.get_command(importlib.import_module(f"hardpan.cli.{name}").app)
        command.name = name if name in COMMANDS else ""
        # Completion is installed once, for all of hardpan; Typer would offer it again in every command.
        command.params = [item for item in command.params if not str(item.name).endswith("_completion")]
        _unwrap(command)
        return name, command, rest


def _is_source(word: str) -> bool:
    """Whether the first word is no command, but a path or the name of a dataset."""
    if word in COMMANDS or word.startswith("-"):
        return False
    if os.path.exists(word) or os.sep in word or os.path.splitext(word)[1]:
        return True
    from hardpan.data.opening import names

    return word in names()


def _unwrap(command: Any) -> None:
    """Join the lines of help texts, so that a terminal of any width can wrap them."""
    if command.help:
        command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help))
    for inner in getattr(command, "commands", {}).values():
        _unwrap(inner)


app = typer.Typer(cls=LazyGroup, rich_markup_mode="rich")


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"hardpan {hardpan.__version__}")
        raise typer.Exit


def _print_schema(kind: str) -> None:
    if kind:
        from hardpan.files.schemas import json_schema

        typer.echo(json.dumps(json_schema(kind), indent=1))
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    schema: Annotated[
        str,
        typer.Option(
            "--schema",
            metavar="KIND",
            callback=_print_schema,
            is_eager=True,
            help="Print the JSON Schema of a report, such as Audit.",
        ),
    ] = "",
) -> None:
    """Audit classification benchmarks: how low can the error go, which examples are hard, will the score hold?

    hardpan PATH says what a file or folder is and which command answers which question with it.
    With --json, --help and --version print JSON.

    Example: [bold]hardpan audit digits --out audits/digits[/bold]
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and exit.

    0: done. 1: a gate failed (``gate``, ``--fail-on``). 2: bad input, with one sentence. 3: ``gate`` cannot tell.
    70: a bug, with its traceback. 130: Ctrl-C. 141: the reader of the output has gone.
    """
    _escape_what_stdout_lacks()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if "--json" in words and {"--help", "--version"} & set(words):
            from hardpan.cli import description

            named = [word for word in words if not word.startswith("-")]
            versions = "--version" in words
            found = description.describe_versions() if versions else description.describe_commands(_MODULES, named)
            typer.echo(json.dumps(found, indent=1, ensure_ascii=False, default=str))
            sys.exit(0)
        result = typer.main.get_command(app).main(arguments, prog_name="hardpan", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except _CommandLineError as error:
        sys.exit(_exit_from_usage_error(error))
    except HardpanError as error:
        sys.exit(_exit_as_refused(str(error)))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(_interrupted(words))
    except BrokenPipeError:  # the reader has gone, as `head` does
        _close_stdout()
        sys.exit(BROKEN_PIPE)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # Click has its own exit for that
            _close_stdout()
            sys.exit(BROKEN_PIPE)
        raise
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # Path.is_dir and others raise it
            sys.exit(_exit_as_refused(f"{str(error.filename)[:40]}…: this name is too long for a file or folder"))
        if error.errno not in (*FULL_DISK, errno.EROFS):
            sys.exit(_report_bug())
        _close_stdout()
        where = error.filename or "the output"
        sys.exit(
            _exit_as_refused(
                f"{where}: cannot be written ({error.strerror}); free some space, or choose another path"
            )
        )
    except MemoryError as error:
        sys.exit(_exit_from_memory_error(error))
    except Exception:
        sys.exit(_report_bug())
    if result == INTERRUPTED:  # newer versions of Typer return it
        sys.exit(_interrupted(words))
    sys.exit(result if isinstance(result, int) else 0)


def _interrupted(words: Sequence[str]) -> int:
    names = RESUMABLE + (RESUMABLE_WITH_OUT if "--out" in words else ())
    resumes = any(words[: len(name.split())] == name.split() for name in names)
    again = "to resume" if resumes else "to start from the beginning"
    print(f"hardpan: interrupted; run the same command again {again}", file=sys.stderr)
    return INTERRUPTED


def _report_bug() -> int:
    traceback.print_exc()
    print("hardpan: this is a bug in hardpan; please report it with the lines above", file=sys.stderr)
    return BUG


def _escape_what_stdout_lacks() -> None:
    """Write characters that the encoding of the output lacks as JSON escapes: text is printed, JSON stays JSON."""

    def escaped(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        lacking = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
        return "".join(
            f"\\u{high:02x}{low:02x}" for high, low in zip(lacking[::2], lacking[1::2], strict=True)
        ), error.end

    codecs.register_error("hardpan-escapes", escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.closed:
            stream.reconfigure(errors="hardpan-escapes")


def _close_stdout() -> None:
    """Drop what could not be written: Python would try again, and fail, when it ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.close()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _exit_as_refused(message: str) -> int:
    """Print one sentence on stderr and return the exit code of bad input."""
    from hardpan.arguments import clean_text

    print("hardpan: " + clean_text(" ".join(message.split())), file=sys.stderr)
    return 2


def _exit_from_memory_error(error: MemoryError) -> int:
    from hardpan.files.reading import available_memory

    free = available_memory()
    left = "" if free is None else f"; {free / 1e9:,.1f} GB are available"
    return _exit_as_refused(
        f"there is not enough memory ({str(error) or 'an allocation failed'}){left}; give fewer rows, models or "
        "items, raise the limit (ulimit -v, the container's or the job's), or use a larger machine"
    )


def _exit_from_usage_error(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    # Typer keeps the refused value in the cause of its error.
    causes = error.__cause__.errors() if hasattr(error.__cause__, "errors") else ()
    received = f"; got {causes[0]['input']!r}" if causes and "input" in causes[0] else ""
    return _exit_as_refused(error.format_message() + received + hint)
