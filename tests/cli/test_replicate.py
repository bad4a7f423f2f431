"""The commands of ``hardpan replicate``, run as a person runs them."""

import csv
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from hardpan import cli, files
from hardpan.replicate import Project
from hardpan.replicate.database import decisions

COMMANDS = (
    *("init", "demo", "add", "tasks", "serve", "status", "sample", "duplicates", "assemble", "verify"),
    "experiment",
)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["replicate", *map(str, arguments)])
    shown = capsys.readouterr()
    return int(stopped.value.code or 0), shown.out, shown.err


@pytest.mark.soak  # test_replicate_from_files and the documents go the same way without the reviews
def test_from_demo_to_verified_set(tmp_path, capsys, database_url):
    project = tmp_path / "new-digits"
    assert run(capsys, "demo", project, "--annotators", 24, "--database-url", database_url)[0] == 0
    code, shown, _ = run(capsys, "status", project, "--json")
    status = json.loads(shown)
    assert (code, status["candidates"], status["tasks"], status["tasks_complete"]) == (0, 797, 30, 30)
    votes = ("--frequencies", tmp_path / "frequencies.csv", "--export-votes", tmp_path / "votes.parquet")
    code, shown, _ = run(capsys, "status", project, *votes)
    assert code == 0
    assert "4 of 24 workers fail the hidden controls" in shown
    with (tmp_path / "frequencies.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) > 797
    code, shown, _ = run(capsys, "sample", project, "--per-class", 4, "--json")
    assert code == 0
    assert len(json.loads(shown)["images"]) == 40
    code, _, said = run(capsys, "assemble", project)
    assert code == 2
    assert "not been compared" in said
    # What is drawn instead of removed images is compared and reviewed in its turn, until nothing changes.
    shown = review_once(capsys, project, remove=2)
    assert len(shown["removed"]) == len(shown["added"]) > 0
    code, _, said = run(capsys, "assemble", project, "--json")
    assert code == 2
    assert "review" in said
    review_once(capsys, project, remove=0)
    code, shown, _ = run(capsys, "assemble", project, "--json")
    assert code == 0
    lineage = files.from_json(json.loads(shown)).lineage
    assert lineage.per_class == {str(c): 4 for c in range(10)}
    code, shown, _ = run(capsys, "verify", project)
    assert (code, shown.splitlines()[0]) == (0, "Verified.")
    (project / "set/index.csv").write_text("changed")
    code, shown, _ = run(capsys, "verify", project)
    assert code == 2
    assert "index.csv was changed" in shown


def review_once(capsys, project, *, remove):
    """Compare, decide on the whole queue, and apply the decisions."""
    assert run(capsys, "duplicates", project, "-k", 1)[0] == 0
    opened = Project.open(project)
    for number, pair in enumerate(decisions.undecided_pairs(opened)):
        verdict = "remove" if number < remove else "keep"
        decisions.record_decision(opened, "duplicate", pair.subject, verdict, by="owner")
    opened.close()
    code, shown, _ = run(capsys, "duplicates", project, "--json")
    assert code == 0
    return json.loads(shown)


def test_init_and_add(tmp_path, capsys, database_url):
    classes = tmp_path / "classes.csv"
    classes.write_text("class,definition\n" + "\n".join(f"{c},the digit {c}" for c in range(10)))
    project = tmp_path / "project"
    given = ("--original", "digits", "--classes", classes, "--database-url", database_url)
    for _ in range(2):  # the same again opens the project
        code, shown, _ = run(capsys, "init", project, *given, "--json")
        assert (code, json.loads(shown)["originals"]) == (0, 1797)
    (tmp_path / "in/7").mkdir(parents=True)
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (8, 8), dtype=np.uint8)).save(tmp_path / "in/7/a.png")
    (tmp_path / "in/7/b.png").write_text("broken")
    code, shown, _ = run(capsys, "add", project, tmp_path / "in")
    assert code == 0
    assert "1 of 2 candidates added" in shown
    assert "7/b.png" in shown
    assert run(capsys, "tasks", project)[0] == 0
    assert json.loads(run(capsys, "tasks", project, "--json")[1])["tasks"] == 0
    code, shown, _ = run(capsys, "add", project, tmp_path / "in", "--per-class", 5, "--json")
    assert (code, json.loads(shown)["subclasses"]["unmatched"]) == (0, 1797)


@pytest.mark.parametrize("url", ["mysql://x", "postgresql://nobody@127.0.0.1:1/x"])
def test_a_project_whose_database_cannot_be_opened_leaves_nothing(tmp_path, capsys, url):
    code, _, said = run(capsys, "init", tmp_path / "project", "--original", "digits", "--database-url", url)
    assert code == 2
    assert "database" in said
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize("url", [5, 1.5, ["sqlite://"], {"a": 1}, "nothing"])
def test_a_database_address_that_is_none_is_refused(tmp_path, capsys, url):
    project = tmp_path / "project"
    assert run(capsys, "init", project, "--original", "digits")[0] == 0
    local = json.loads((project / "local.json").read_text())
    (project / "local.json").write_text(json.dumps(local | {"database_url": url}))
    code, _, said = run(capsys, "status", project)
    assert code == 2
    assert "database address" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "nowhere"),
        ("init", "p", "--original", "nothing"),
        ("init", "p", "--original", "digits", "--set", "grid=6"),
        ("init", "p", "--original", "digits", "--set", "lease_seconds=inf"),
        ("init", "p", "--original", "digits", "--database-url", "mysql://x"),
        ("init", "/proc/nothing", "--original", "digits"),
        ("sample", "nowhere"),
        ("verify", "nowhere"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, shown, said = run(capsys, *arguments)
    assert code == 2
    assert shown == ""
    assert said.startswith("hardpan: ")
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(name, capsys):
    code, shown, _ = run(capsys, name, "--help")
    assert code == 0
    assert f"hardpan replicate {name}" in " ".join(shown.split("Example:")[1].split())


@pytest.mark.parametrize("name", ["subclasses", "votes", "frequencies", "threshold-sweep", "review"])
def test_a_removed_command_names_what_replaces_it(name, capsys):
    code, shown, said = run(capsys, name, "project", "--json")
    assert (code, shown) == (2, "")
    assert re.search(f"hardpan replicate ({'|'.join(COMMANDS)}) ?", said.partition("; use ")[2])


# What became of a file of a project, and what the commands then say.
DAMAGE = {
    "local.json": (b"[]", "does not hold the project's secrets"),
    "project.json": (b"{", "is not JSON"),
    "project.sqlite": (b"no database at all " * 200, "cannot be opened (file is not a database)"),
    "steps/0001-init.json": (b"{", "is not JSON"),
}
# In a process of its own: files of SQLite are damaged and disks are full here, which PostgreSQL has no part in.
LIMITED = """
import resource, signal, sys
from hardpan.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for line in sys.stdin:
    limit, *arguments = line.rstrip().split("\\t")
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    try:
        main(["replicate", *arguments])
    except SystemExit as end:
        print("ended with", end.code, file=sys.stderr)
    print("ended", flush=True)
"""


def run_apart(folder, lines):
    """Run commands, each with a limit on the size of files; give what each says, and the codes they end with."""
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], cwd=folder, input=text, capture_output=True, text=True, check=True
    )
    assert "Traceback" not in done.stderr
    # On a busy machine a command may take so long that it tells how far it is.
    told = re.sub(r"^hardpan: +\d+ % .*\n", "", done.stderr, flags=re.MULTILINE)
    said = re.split(r"ended with (\d)\n", told)
    return done.stdout.split("ended\n")[:-1], said[:-1:2], [int(code) for code in said[1::2]]


@pytest.mark.soak
def test_full_disks_and_damaged_projects_are_one_sentence(tmp_path):
    made = ("init", "p", "--original", "digits")
    _, said, codes = run_apart(tmp_path, [(60_000, *made), (300_000, *made), (10**9, *made)])
    assert codes == [2, 2, 0]
    assert said[0].startswith("hardpan: p: stopped (")
    assert said[1].startswith("hardpan: p: the database failed (")
    assert [text.count("\n") for text in said] == [1, 1, 0]
    for number, (name, (content, _)) in enumerate(DAMAGE.items()):
        shutil.copytree(tmp_path / "p", tmp_path / str(number))
        (tmp_path / str(number) / name).write_bytes(content)
    (tmp_path / "p/original/x.npy").write_bytes(b"")
    lines = [(10**9, "status", number) for number in range(len(DAMAGE))]
    shown, said, codes = run_apart(tmp_path, [*lines, (10**9, "verify", "p")])
    assert codes == [2] * (len(DAMAGE) + 1)
    for text, (_, message) in zip(said, DAMAGE.values(), strict=False):
        assert message in text
        assert text.count("\n") == 1
    assert "x.npy cannot be read" in shown[-1].replace("\n", " ")
    assert re.search(r"pool +as recorded", shown[-1])
