"""Command lines made from the commands' own flags, run in this process: no traceback, exit 1 only from a gate."""

from __future__ import annotations

import contextlib
import importlib
import io
import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer
from tests.outcomes import logs

from hardpan import cli, files, ledger, tables
from hardpan.data.dataset import Dataset
from hardpan.predictions import Predictions
from hardpan.replicate import Project, simulate

# Commands that may train for minutes: other inputs than those of VALID do not exist, and one line in ten is theirs.
SLOW = {"audit", "train", "flow", "floor"}
NEVER = {("replicate", "serve"), ("browse", "")}  # a server does not end by itself
LEFT_OUT = {"help", "database_url", "serve", "install_completion", "show_completion"}
# Values that would make a quick command slow, and back ends that this process must not start.
COSTLY = {"epochs", "flow_epochs", "ensemble", "ensemble_epochs", "flow", "preset", "sweep_preset", "model"}
COSTLY |= {"models", "sizes", "steps", "budget", "classifiers", "backend", "compile", "capture", "seeds"}
COSTLY |= {"bootstrap", "n"}
STRANGE = ("", "-1", "nan", "1e999", "é", "a\nb", "=1+1", "\u202e", "x" * 300, "missing.csv", "..", "[red]")


@dataclass
class Tally:
    """How command lines ended, and those that ended as none may."""

    codes: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def fixtures(folder: Path) -> None:
    """Small inputs of every kind in a folder."""
    rng = np.random.default_rng(0)
    labels, ids = rng.integers(0, 3, 120), [f"e{k}" for k in range(120)]
    tables.write_table(folder / "labels.csv", {"id": ids, "label": labels.tolist()})
    guess = np.where(rng.random(120) < 0.7, labels, rng.integers(0, 3, 120))
    tables.write_table(folder / "predictions.csv", {"id": ids, "prediction": guess.tolist()})
    np.save(folder / "means.npy", rng.normal(size=(3, 4)))
    probs = rng.dirichlet(np.ones(3), size=(4, 1, 120))
    np.savez(folder / "probs.npz", probs=probs[:, 0], labels=labels, ids=ids)
    models = [f"m{k}" for k in range(6)]
    rows = [(m, i, int(rng.random() < 0.5 + 0.07 * k)) for k, m in enumerate(models) for i in range(60)]
    outcome = {name: [row[at] for row in rows] for at, name in enumerate(("model", "item", "score"))}
    tables.write_table(folder / "outcomes.csv", outcome)
    counts = {"model": models, "original_correct": [700 + 30 * k for k in range(6)], "original_total": [1000] * 6}
    counts |= {"new_correct": [600 + 35 * k for k in range(6)], "new_total": [1000] * 6}
    tables.write_table(folder / "counts.csv", counts)
    tables.write_table(
        folder / "examples.csv",
        {"id": list(range(60)), "label": [k % 3 for k in range(60)], "frequency": rng.random(60).tolist()}
        | {"duplicate": [int(k < 4) for k in range(60)]},
    )
    tables.write_table(
        folder / "splits.csv",
        {"model": [m for m in models for _ in range(4)], "dataset": ["original", "new", "fold 1", "fold 2"] * 6}
        | {"correct": rng.integers(60, 95, 24).tolist(), "total": [100] * 24},
    )
    responses = {"participant": [f"p{k // 20}" for k in range(80)], "set": ["original", "new"] * 40}
    tables.write_table(folder / "responses.csv", responses | {"correct": rng.integers(0, 2, 80).tolist()})
    for model in models:
        answers = [logs.choice_row(item, rng.normal(size=3).tolist(), item % 3) for item in range(12)]
        logs.write_lm_eval(folder / "logs" / model, "quiz", answers, {"model_name": model})
    x = rng.normal(size=(120, 2)) + 2.0 * np.eye(3, 2)[labels]
    np.savez(folder / "points.npz", x=x, y=labels)
    np.savez(folder / "moved.npz", x=x + 0.3, y=labels)
    for number in range(2):
        store = Predictions.create(folder / f"store-{number}", ids=np.array(ids), n_classes=3, labels=labels)
        store.write(number, 1, probs[number, 0])
    ledger.create(folder / "book", folder / "labels.csv", folder / "owner.key", holdout=0.25)
    x = rng.integers(0, 256, (60, 8, 8)).astype(np.uint8)
    original = Dataset("small", x, np.array([f"o{k}" for k in range(60)]), np.arange(60) % 3, ("a", "b", "c"))
    project = Project.create(folder / "project", original, grid=12, workers_per_image=3, originals_per_class=6)
    simulate.add_candidate_arrays(
        project, rng.integers(0, 256, (60, 8, 8)).astype(np.uint8), (np.arange(60) % 3).tolist()
    )
    project.make_tasks()
    simulate.simulate_demo_annotation(project, 4)
    project.close()


# What every command is run with at least; names of files are those of `fixtures`.
VALID: dict[tuple[str, str], list[str]] = {
    ("audit", ""): ["points.npz", "--budget", "2s", "--flow", "none", "--ensemble", "none"],
    ("bayes", "gaussian"): ["means.npy"],
    ("confusion", "score"): ["probs.npz"],
    ("confusion", "subset"): ["probs.npz", "--fraction", "0.2"],
    ("confusion", "transfer"): ["probs.npz", "probs.npz", "--names", "a,b"],
    ("floor", ""): ["points.npz", "--set", "classifiers=none"],
    ("gate", ""): ["outcomes.csv::m0", "outcomes.csv::m5", "--margin", "30"],
    ("leaderboard", "rank"): ["outcomes.csv"],
    ("leaderboard", "keys"): ["logs"],
    ("leaderboard", "predict"): ["outcomes.csv", "outcomes.csv"],
    ("leaderboard", "report"): ["outcomes.csv"],
    ("leaderboard", "items"): ["outcomes.csv"],
    ("leaderboard", "shorten"): ["outcomes.csv", "--items", "20"],
    ("ledger", "init"): ["NEW", "--labels", "labels.csv", "--key", "NEW"],
    ("ledger", "submit"): ["book", "predictions.csv", "--key", "owner.key"],
    ("ledger", "verify"): ["book"],
    ("ledger", "open"): ["book", "--key", "owner.key"],
    ("ledger", "reveal"): ["book", "--key", "owner.key", "--out", "NEW.csv"],
    ("predictions", "check"): ["store-0"],
    ("predictions", "merge"): ["store-0", "store-1", "--out", "NEW"],
    ("predictions", "import"): ["probs.npz", "--out", "NEW"],
    ("predictions", "export"): ["probs.npz", "NEW.csv"],
    ("replicate", "init"): ["NEW", "--original", "digits"],
    ("replicate", "status"): ["project"],
    ("replicate", "tasks"): ["project"],
    ("replicate", "sample"): ["project", "--per-class", "2", "--set", "min_votes=1"],
    ("replicate", "duplicates"): ["project", "-k", "1"],
    ("replicate", "assemble"): ["project", "--unreviewed-ok"],
    ("replicate", "experiment"): ["project", "--fraction", "0.1"],
    ("replicate", "verify"): ["project"],
    ("testbed", "compare"): ["counts.csv"],
    ("testbed", "explain"): ["outcomes.csv", "outcomes.csv", "--examples", "examples.csv", "--by", "frequency"],
    ("testbed", "items"): ["outcomes.csv"],
    ("train", ""): ["points.npz", "--out", "NEW", "--model", "linear", "--epochs", "1", "--seeds", "1"],
}


def commands() -> dict[tuple[str, str], Any]:
    """Every command by group and name, as Click has it."""
    out: dict[tuple[str, str], Any] = {}
    for group in cli.COMMANDS:
        command: Any = typer.main.get_command(importlib.import_module(f"hardpan.cli.{group}").app)
        for name, item in getattr(command, "commands", {"": command}).items():
            out[group, name] = item
    return out


def invocation(known: dict[tuple[str, str], Any], chance: random.Random, number: int) -> list[str]:
    """One command line: what a command needs at least, and some of its own flags with values that fit or do not."""
    fits = chance.random() < 0.7
    slow = chance.random() < 0.1
    group, name = chance.choice([key for key in (VALID if fits else known) if (key[0] in SLOW) == slow])
    command = known[group, name]
    if fits:
        words = [f"new-{number}{word[3:]}" if word.startswith("NEW") else word for word in VALID[group, name]]
        words = [f"{word}-{at}" if word == f"new-{number}" else word for at, word in enumerate(words)]
    else:
        paths = ("missing.csv", "nowhere") if group in SLOW else ("labels.csv", "outcomes.csv", "book", "project")
        words = [chance.choice(paths) for item in command.params if item.required and not hasattr(item, "is_flag")]
    flags = [item for item in command.params if hasattr(item, "is_flag") and item.name not in LEFT_OUT]
    if fits:  # those whose default is a value that can be given
        flags = [item for item in flags if item.is_flag or item.name == "out" or item.default not in (None, "")]
        flags = [item for item in flags if item.name not in COSTLY and item.opts[-1] not in words]
    for flag in chance.sample(flags, min(len(flags), chance.choice([0, 0, 1, 1, 2, 3]))):
        words.append(flag.opts[-1])
        if not flag.is_flag:
            words.append(_value(flag, chance, strange=not fits or chance.random() < 0.1, number=number))
    return [word for word in (group, name) if word] + words


def _value(flag: Any, chance: random.Random, *, strange: bool, number: int) -> str:
    if strange:
        return chance.choice(STRANGE)
    if flag.name in ("out", "export"):
        return f"out-{number}.csv" if flag.name == "export" else f"out-{number}"
    default = flag.default
    if isinstance(default, bool) or default is None or default == "":
        low = flag.min if getattr(flag, "min", None) is not None else 1
        return str(int(low))
    if isinstance(default, int):
        return str(max(int(getattr(flag, "min", None) or 0), min(default, 20)))
    return str(default)


def run(folder: Path, count: int, seed: int) -> Tally:
    """Run so many command lines in a folder with the fixtures; a project or book is put back every 50."""
    known = {key: item for key, item in commands().items() if key not in NEVER}
    chance, tally = random.Random(seed), Tally()
    fixtures(folder)
    with contextlib.chdir(folder):
        for name in ("project", "book"):
            shutil.copytree(name, f"{name}-kept")
        for number in range(count):
            if number % 50 == 0:
                for name in ("project", "book"):
                    shutil.rmtree(name, ignore_errors=True)
                    shutil.copytree(f"{name}-kept", name)
            words = invocation(known, chance, number)
            code, said = call(words)
            tally.codes[code] += 1
            gate = words[0] == "gate" or any(word.startswith("--fail") for word in words)
            if (
                (code not in (0, 2) and not (code in (1, 3) and gate))
                or "Traceback" in said
                or (code == 2 and not said.strip() and words[1:2] != ["verify"])
            ):
                tally.wrong.append(f"{words}: exit {code}: {said[-500:]}")
    return tally


def call(words: list[str]) -> tuple[int, str]:
    """Run one command line; gives its exit code and what it wrote to stderr."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception as error:
            return 70, f"{files.__name__}: {type(error).__name__}: {error}"
    return code, err.getvalue()
