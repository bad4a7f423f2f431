"""How long a fresh interpreter needs to import hardpan, compared with its dependencies.

``import hardpan`` loads its parts when they are first used; the rows after it show what the parts cost.
"""

from __future__ import annotations

from bench import harness

PEERS = ("scikit-learn", "altair", "typer")
IMPORTS = (
    "hardpan",
    "hardpan.files",
    "hardpan.bayes",
    "hardpan.cli",
    "numpy",
    "scipy.stats",
    "sklearn.neighbors",
)


def run() -> dict[str, object]:
    bare = harness.cold(["-c", "pass"])
    rows: list[dict[str, object]] = [
        {"import": "nothing (the interpreter)", "best s": bare.best, "median s": bare.median}
    ]
    for name in IMPORTS:
        done = harness.cold(["-c", f"import sys, {name}; print('torch' in sys.modules)"])
        row: dict[str, object] = {"import": name, "best s": done.best, "median s": done.median}
        row["imports torch"] = done.output.strip() == "True"
        if name == "hardpan":
            row |= harness.against(done.median, at_most=0.5, unit="s")
        rows.append(row)
    notes = ["whole process, started five times after one start that warms the disk cache; one core"]
    return harness.table("Cold import", rows, notes=notes)
