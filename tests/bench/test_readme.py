"""The README's table of measurements says what the records hold."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FRESH = ("planted problems found", "audits with a false alarm", "brackets that hold")


def rows(topic, title):
    """Rows of the newest table of this title in a topic's record."""
    machines = json.loads((ROOT / "bench" / "records" / f"{topic}.json").read_text(encoding="utf-8"))["machines"]
    tables = [(item["date"], table) for item in machines.values() for table in item["tables"]]
    return max((entry for entry in tables if entry[1]["title"] == title), key=lambda entry: entry[0])[1]["rows"]


def by(name, table):
    return {row[name]: row for row in table}


def measured():
    """What each line of the table is about, and the texts that the records give for it."""
    fresh = by("measured", rows("verdicts", "Verdicts on fresh problems"))
    yield "fresh problems", tuple(f"{row['count']} of {row['of']}" for name, row in fresh.items() if name in FRESH)
    said = rows("verdicts", "Sentences with a stated confidence")
    yield "stated confidence", (f"{len(said)} sentences", f"{sum(not row['met'] for row in said)} false")
    two = rows("gaussian", "Two classes against 50 digits")
    yield "two Gaussian classes", (f"{max(row['worst relative error'] for row in two):.0e}",)
    covered = [row["coverage"] for row in rows("gaussian_coverage", "Coverage of 95 % intervals")]
    yield (
        "intervals of stochastic methods",
        (f"{len(covered)} problems", f"{100 * min(covered):.0f} to {100 * max(covered):.0f} %"),
    )
    (many,) = (row for row in rows("gaussian", "Many classes with one covariance") if row["K"] == 1000)
    yield (
        "1,000 classes",
        (f"{many['d']:,} dim", f"{100 * many['relative stderr']:.1f} %", f"{many['seconds']:.1f} s"),
    )
    pairs = [row["times"] for row in rows("ssim", "Structural similarity of pairs") if row.get("times")]
    yield "SSIM", (f"{min(pairs):.0f}×", f"{max(pairs):.0f}×")
    shares = [row["share"] for row in rows("store", "Overhead of the recorder")]
    yield "Recording", (f"{100 * min(shares):.1f} to {100 * max(shares):.1f} %",)
    glow = by("Glow", rows("flows", "Training steps of the paper's Glow on a GPU"))
    ours, peer = glow["hardpan bf16, captured (256), 1 ch"], glow["normflows tf32 (256), 1 ch"]
    single = [(name, row["images/s"]) for name, row in glow.items() if name.endswith("1 ch")]
    best = [max(rate for name, rate in single if name.startswith(kind)) for kind in ("hardpan", "normflows")]
    yield (
        "Glow",
        (
            f"{ours['images/s']:,} images/s",
            f"{ours['images/s'] / peer['images/s']:.1f}×",
            f"{best[0] / best[1]:.1f}×",
        ),
    )


def test_the_table_of_measurements_equals_the_records():
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## What is measured")[2]
    lines = re.findall(r"^\| (?!-|hardpan).*\|$", text, re.MULTILINE)[:10]
    for about, numbers in measured():
        (line,) = (line for line in lines if about in line)
        for number in numbers:
            assert number in line, f"README: {about}: the record says {number}; the line is {line}"
