"""The documents do what they say: every pycon block runs as a doctest, every hardpan command ends well."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    "README.md",
    "docs/datasets.md",
    "docs/recording.md",
    "docs/parallel.md",
    "docs/commands/audit.md",
    "docs/commands/bayes-gaussian.md",
    "docs/commands/floor.md",
    "docs/commands/experiments.md",
    "docs/commands/predictions.md",
    "docs/commands/replicate.md",
    "docs/commands/testbed.md",
    "docs/commands/train.md",
]
BLOCK = re.compile(r"^```(pycon|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_shows_runs_as_shown(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks(document)
    assert found, f"{document} shows nothing that runs"
    names: dict[str, object] = {}
    for language, text in found:
        if language == "pycon":
            check_examples(document, text, names)
        else:
            for line in text.splitlines():
                if line.startswith("hardpan "):
                    run_command(line)


def check_examples(document: str, text: str, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, document, document, 0)
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(test, out=told.append, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, "".join(told)


def run_command(line: str) -> None:
    arguments = shlex.split(line, comments=True)[1:]
    done = subprocess.run([sys.executable, "-m", "hardpan", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    assert done.stdout.strip(), f"{line} says nothing"


def test_readme_begins_with_exactly_two_commands():
    first = next(text for language, text in blocks("README.md") if language == "sh")
    assert [line.partition("#")[0].strip() for line in first.splitlines()] == ["make audit", "make test"]


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_into_the_repository_lead_somewhere(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (ROOT / target).exists(), f"{document} links to {target}, which is not there"
