"""Audits of public benchmarks, one page each: the finding, a picture, the numbers, the problems and what to do.

Run: python -m reproductions.published_audits FOLDER [--only NAME[,NAME]] [--pages]

FOLDER holds the repositories that the data come from (``git clone https://github.com/OWNER/NAME
FOLDER/OWNER/NAME``), ``cifar10.npz`` (x_train, y_train, x_test, y_test) and ``fashion-mnist/*.gz``. For each audit
the script lays the data out in FOLDER/published, runs the command, photographs the page's first screen and writes
reproductions/records/published_audits/NAME.json and docs/audits/NAME.png; then all pages, docs/audits/NAME.md and
index.md, from the records. ``--pages`` writes only these. Every sentence about a benchmark is one of its report.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import datetime
import html
import io
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hardpan import files
from hardpan.auditing.running import Audit
from hardpan.pages import formatting
from hardpan.pages.auditing.comparison import MEASURES
from hardpan.pages.sections import Table
from hardpan.report import Report

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "audits"
RECORDS = ROOT / "reproductions" / "records" / "published_audits"
RUN = "python -m reproductions.published_audits FOLDER"
ROWS = 10  # of the table on a page
MEASURED = ("best_error", "duplicated")
NOT_MEASURED = "fresh"  # the kind of what an audit says that it did not measure


@dataclasses.dataclass(frozen=True)
class Source:
    """Where data are from: an address, and a version, of repositories the commit at which a clone is read."""

    address: str
    version: str
    licence: str

    def git(self, folder: Path, *arguments: str) -> bytes:
        clone = folder / self.address.removeprefix("github.com/")
        if not clone.exists():
            sys.exit(f"git clone https://{self.address} {clone}")
        return subprocess.run(["git", "-C", str(clone), *arguments], check=True, stdout=subprocess.PIPE).stdout

    def read(self, folder: Path, path: str) -> bytes:
        return self.git(folder, "show", f"{self.version}:{path}")

    def paths(self, folder: Path) -> list[str]:
        return self.git(folder, "ls-tree", "-r", "--name-only", self.version).decode().splitlines()


@dataclasses.dataclass(frozen=True)
class Plan:
    """One audit.

    Attributes:
        title: the name of the benchmark.
        source: where its data are from.
        command: what is run in the folder where ``lay_out`` has put the data.
        lay_out: writes the files that the command reads; given the source, the folder of the data and the target.
        read_as: what was done to the files before the command read them.
    """

    title: str
    source: Source
    command: str
    lay_out: Callable[[Source, Path, Path], None]
    read_as: str = "The files are read as they are."


@files.record
class PublishedAudit:
    """What a page says: the sentences of one report and where its data are from."""

    title: str
    finding: str
    summary: tuple[str, ...]
    size: str
    source: str
    version: str
    licence: str
    read_as: str
    command: str
    date: str
    versions: Mapping[str, str]
    hashes: Mapping[str, str]
    problems: tuple[Mapping[str, str], ...]
    sentences: tuple[str, ...]
    table: Table
    unknown: tuple[str, ...]


def copies(paths: Mapping[str, str]) -> Callable[[Source, Path, Path], None]:
    """Lay out files of the repository under other names."""

    def lay_out(source: Source, folder: Path, to: Path) -> None:
        for name, path in paths.items():
            _write(to / name, source.read(folder, path))

    return lay_out


def results_of_runs(parts: int, prefix: str) -> Callable[[Source, Path, Path], None]:
    """Lay out the files of results that lie so deep in the repository, with their folders."""

    def lay_out(source: Source, folder: Path, to: Path) -> None:
        for path in source.paths(folder):
            name = path.rsplit("/", 1)[-1]
            if path.count("/") == parts - 1 and name in ("results.json", "run_metadata.json", "eval_results.json"):
                _write(to / prefix / Path(*Path(path).parts[-3:]), source.read(folder, path))

    return lay_out


def adult(source: Source, folder: Path, to: Path) -> None:
    """Both files as CSV, without the full stop after the labels of the test file."""
    for name, path in (("train", "adult.data"), ("test", "adult.test")):
        lines = source.read(folder, path).decode().splitlines()
        rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.count(",") == 14]
        _write_table(to / "adult" / f"{name}.csv", [[*row[:-1], row[-1].rstrip(".")] for row in rows])


def clinc(source: Source, folder: Path, to: Path) -> None:
    """The training and test texts of the 150 intents as CSV."""
    texts = json.loads(source.read(folder, "data/data_full.json"))
    for name in ("train", "test"):
        _write_table(to / "clinc150" / f"{name}.csv", [["text", "label"], *texts[name]])


def messages(source: Source, folder: Path, to: Path) -> None:
    """Label and text of every message as CSV."""
    lines = source.read(folder, "data/sms.tsv").decode().splitlines()
    _write_table(to / "sms.csv", [["label", "text"], *(line.split("\t", 1) for line in lines)])


def fashion(source: Source, folder: Path, to: Path) -> None:
    """The four files, as they lie in the folder of the data."""
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            name = f"fashion-mnist/{part}-{kind}-ubyte.gz"
            _write(to / name, (folder / name).read_bytes())


def cifar_models(source: Source, folder: Path, to: Path) -> None:
    """Which images each model has right, on CIFAR-10's test set and on the new one."""
    with np.load(folder / "cifar10.npz") as arrays:
        original = arrays["y_test"].reshape(-1)
    new = np.load(io.BytesIO(source.read(folder, "datasets/cifar10.1_v6_labels.npy")))
    for name, part, labels in (("cifar-10", "original", original), ("cifar-10.1", "v6", new)):
        place = f"model_predictions/{part}_predictions/"
        paths = [path for path in source.paths(folder) if path.startswith(place)]
        answers = {
            path.removeprefix(place).removesuffix("_predictions.json"): json.loads(source.read(folder, path))
            for path in paths
        }
        right = np.array([np.asarray(values) == labels for values in answers.values()])
        to.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(to / f"{name}.npz", scores=right.astype(np.float64), models=np.array(list(answers)))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _write_table(path: Path, rows: list[list[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


SEABORN = Source("github.com/mwaskom/seaborn-data", "71e2436a092d714350de0fc409ca8a8714e7e78f", "none stated")
TIMM = Source(
    "github.com/huggingface/pytorch-image-models", "aa4b5850c1543fa488abf260f18390eda46cf85d", "Apache-2.0"
)
CIFAR_NEW = Source("github.com/modestyachts/CIFAR-10.1", "d9982abb0bfc4846b8d13a11e66b887d946205d0", "MIT")
PLANS = {
    "swe-bench-pro": Plan(
        "SWE-bench Pro",
        Source("github.com/scaleapi/SWE-bench_Pro-os", "ca10a60a5fcae51e6948ffe1485d4153d421e6c5", "MIT"),
        "hardpan leaderboard report swe-bench-pro --out audits/swe-bench-pro",
        results_of_runs(3, "swe-bench-pro"),
    ),
    "terminal-bench": Plan(
        "terminal-bench",
        Source(
            "github.com/laude-institute/terminal-bench-leaderboard",
            "8e1925a397d7ed859c027cc19b3a3d90c16ef8df",
            "none stated",
        ),
        "hardpan leaderboard report terminal-bench --out audits/terminal-bench",
        results_of_runs(5, "terminal-bench"),
        "Of each run the file results.json of its folder AGENT/RUN; submissions in another layout are left out.",
    ),
    "livebench": Plan(
        "LiveBench",
        Source("github.com/sambowyer/bayes_evals", "b9711844e00e9664258de321966ecd258a7273d6", "MIT"),
        "hardpan leaderboard report livebench.parquet --out audits/livebench",
        copies({"livebench.parquet": "examples/data/livebench_13012025.parquet"}),
    ),
    "imagenet-v2": Plan(
        "ImageNet and ImageNetV2",
        TIMM,
        "hardpan testbed compare results-imagenet.csv results-imagenetv2-matched-frequency.csv "
        "--out audits/imagenet-v2",
        copies(
            {
                name: f"results/{name}"
                for name in ("results-imagenet.csv", "results-imagenetv2-matched-frequency.csv")
            }
        ),
    ),
    "cifar-10-1": Plan(
        "CIFAR-10 and CIFAR-10.1",
        CIFAR_NEW,
        "hardpan testbed compare cifar-10.npz cifar-10.1.npz --out audits/cifar-10-1",
        cifar_models,
        "Predictions of 30 models are right or wrong by the labels of CIFAR-10 and of CIFAR-10.1, version 6.",
    ),
    "fashion-mnist": Plan(
        "Fashion-MNIST",
        Source("packages.debian.org/sid/dataset-fashion-mnist", "0.0~git20200523.55506a9-1", "MIT"),
        "hardpan audit ./fashion-mnist --budget 4m --out audits/fashion-mnist",
        fashion,
        "The four files of the package.",
    ),
    "clinc150": Plan(
        "CLINC150",
        Source("github.com/clinc/oos-eval", "828f8093932c8fe6ca7936c3d2e52903b1c523de", "CC BY 3.0"),
        "hardpan audit clinc150 --budget 6m --out audits/clinc150",
        clinc,
        "The texts of `train` and `test` of data_full.json as CSV, without validation and out-of-scope texts.",
    ),
    "sms-spam": Plan(
        "SMS spam",
        Source(
            "github.com/justmarkham/pycon-2016-tutorial", "5339710562cc46c4a32a369d63f1e8751a18a54e", "none stated"
        ),
        "hardpan audit sms.csv --label label --budget 90s --out audits/sms-spam",
        messages,
        "The lines of data/sms.tsv as CSV.",
    ),
    "adult": Plan(
        "Adult",
        Source("github.com/uknowwho/pafer", "2156a51ab19a41b359307d5488c1b5d836aea59f", "none stated"),
        "hardpan audit adult --label outcome --budget 6m --out audits/adult",
        adult,
        "adult.data and adult.test as CSV; the full stop after the labels of adult.test is removed.",
    ),
    "titanic": Plan(
        "Titanic, the table of seaborn",
        SEABORN,
        "hardpan audit titanic.csv --label survived --budget 60s --out audits/titanic",
        copies({"titanic.csv": "titanic.csv"}),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the repositories of the data lie")
    parser.add_argument("--only", default="", help="names of audits, divided by commas")
    parser.add_argument("--pages", action="store_true", help="only write the pages, from the records")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(PLANS)
    if unknown := set(names) - set(PLANS):
        sys.exit(f"no audit is named {', '.join(sorted(unknown))}; there are {', '.join(PLANS)}")
    if not given.pages:
        if given.folder is None:
            sys.exit("give the folder with the repositories, or --pages")
        for name in names:
            publish(name, given.folder.resolve())
    write_pages()


def publish(name: str, folder: Path) -> None:
    """Run one audit; keep its record and the picture of its first screen."""
    from docs import screenshot

    plan, place = PLANS[name], folder / "published"
    plan.lay_out(plan.source, folder, place)
    subprocess.run([sys.executable, "-m", *shlex.split(plan.command)], cwd=place, check=True)
    saved = place / shlex.split(plan.command)[-1]
    record = record_of(files.load(saved / "report.json"), plan, str(datetime.datetime.now(datetime.UTC).date()))
    RECORDS.mkdir(parents=True, exist_ok=True)
    files.save(record, RECORDS / f"{name}.json")
    with screenshot.window() as opened:
        opened.goto((saved / "index.html").as_uri())
        opened.wait_for_load_state("networkidle")
        screenshot.take(opened, PAGES / f"{name}.png")


def record_of(report: Report, plan: Plan, date: str) -> PublishedAudit:
    """The sentences and numbers of a report that its page shows."""
    view = report.view()
    made = view.provenance
    warnings = dict.fromkeys(warning for section in view.sections for warning in section.warnings)
    sentences, table = _numbers(report)
    unmeasured = [f"{item.title}. {item.detail}" for item in view.problems if item.kind == NOT_MEASURED]
    return PublishedAudit(
        title=plan.title,
        finding=view.headline,
        summary=view.lede,
        size=view.size,
        source=plan.source.address,
        version=plan.source.version,
        licence=plan.source.licence,
        read_as=plan.read_as,
        command=plan.command,
        date=date,
        versions=dict(made.versions) if made else {},
        hashes=dict(made.hashes) if made else {},
        problems=tuple(
            {"kind": item.kind, "severity": item.severity, "title": item.title, "detail": item.detail}
            for item in view.problems
            if item.kind != NOT_MEASURED
        ),
        sentences=sentences,
        table=table,
        unknown=(*unmeasured, *warnings, *(made.warnings if made else ())),
    )


def _numbers(report: Report) -> tuple[tuple[str, ...], Table]:
    """The measures of an audit; of other reports the first section with a table, its cells as text."""
    tables = [
        (section, table)
        for section in report.sections()
        for table in (*section.tables, *section.folded)
        if isinstance(table, Table)
    ]
    if isinstance(report, Audit):
        rows = [(MEASURES[name], item) for name in MEASURED if (item := report.measures.get(name)) is not None]
        if report.metrics is not None:
            rows.insert(0, (f"error of always answering “{report.metrics.guess}”", report.metrics.guessing))
        rows += [
            (f"error of {row[0]}", row[1])
            for _, table in tables
            if table.columns[0] == "classifier"
            for row in table.rows
        ]
        cells = tuple((what, formatting.cell(value)) for what, value in rows)
        return (), Table("With 95 % intervals; each of the classifiers has its own", ("number", "value"), cells)
    section, whole = tables[0]
    shown = [formatting.column([row[index] for row in whole.rows[:ROWS]]) for index in range(len(whole.columns))]
    more = f" (the first {ROWS} of {len(whole.rows):,})" if len(whole.rows) > ROWS else ""
    return section.sentences, Table(whole.title + more, whole.columns, tuple(zip(*shown, strict=True)))


def page(name: str, record: PublishedAudit) -> str:
    """The page of one audit."""
    source = f"[{record.source}](https://{record.source}), `{record.version}`"
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    rows = [
        *((("size", record.size),) if record.size else ()),
        ("data", f"{source}; licence: {record.licence}. {record.read_as}"),
        ("command", f"`{record.command}`"),
        ("run", f"{record.date}, {versions}"),
        *((f"sha256: {what.removesuffix(', sha256')}", f"`{value}`") for what, value in record.hashes.items()),
    ]
    parts = [
        f"# {record.title}: {record.finding}",
        f"Made by `{RUN} --only {name}`; do not edit. Every sentence about the benchmark is one of the report.",
        f"![The first screen of the page]({name}.png)",
        "\n\n".join(record.summary),
        _markdown(("what", ""), rows),
        "## Numbers",
        "\n\n".join(record.sentences),
        f"{record.table.title}:",
        _markdown(record.table.columns, record.table.rows),
    ]
    if record.problems:
        parts += [
            "## Problems and what to do",
            "Worst first, as the report lists them; a note is a fact, a request to look, or what was not measured.",
            *(f"- **{_linked(item)}** ({item['severity']}). {item['detail']}" for item in record.problems),
        ]
    if record.unknown:
        parts += ["## What limits this", *(f"- {text}" for text in record.unknown)]
    return html.escape("\n\n".join(part for part in parts if part), quote=False) + "\n"


def _linked(problem: Mapping[str, str]) -> str:
    known = (ROOT / "docs" / "problems" / f"{problem['kind']}.md").exists()
    return f"[{problem['title']}](../problems/{problem['kind'] if known else 'leaderboard'}.md)"


def _markdown(columns: tuple[str, ...], rows: Any) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def index(records: Mapping[str, PublishedAudit]) -> str:
    """The page that lists the audits."""
    rows = [
        (
            f"[{record.title}]({name}.md)",
            record.finding,
            record.date,
            f"[record](../../reproductions/records/published_audits/{name}.json)",
        )
        for name, record in records.items()
    ]
    return (
        "\n\n".join(
            (
                "# Published audits",
                f"Made by `{RUN}` from public data; do not edit.",
                "The finding is the headline of each report; its page has the picture, the numbers, the problems "
                "and the advice. The audits ran on two shared CPU cores, so networks are small and training ended "
                "with the budget of the command: errors of models are those of quick baselines.",
                _markdown(("benchmark", "finding", "run", "record"), rows),
            )
        )
        + "\n"
    )


def kept_records() -> dict[str, PublishedAudit]:
    """The records by name, in the order of the plans."""
    return {name: files.load(path) for name in PLANS if (path := RECORDS / f"{name}.json").exists()}


def write_pages() -> None:
    records = kept_records()
    PAGES.mkdir(parents=True, exist_ok=True)
    for name, record in records.items():
        (PAGES / f"{name}.md").write_text(page(name, record), encoding="utf-8")
    (PAGES / "index.md").write_text(index(records), encoding="utf-8")


if __name__ == "__main__":
    main()
