"""The documents do what they say: every pycon block runs as a doctest, every hardpan command ends well."""

import ast
import contextlib
import doctest
import io
import json
import pkgutil
import re
import shlex
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import typer
from tests.soak import invocations

from hardpan import cli
from hardpan.auditing import problems
from hardpan.data import opening
from hardpan.report import Report

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    "README.md",
    "docs/agents.md",
    "docs/bring-your-data.md",
    "docs/datasets.md",
    "docs/encoders.md",
    "docs/guide.md",
    "docs/recording.md",
    "docs/parallel.md",
    *(f"docs/tutorials/{name}.md" for name in ("your-model", "text", "leaderboard", "new-test-set", "synthetic")),
    *(
        f"docs/commands/{name}.md"
        for name in (
            "audit",
            "bayes-gaussian",
            "compare",
            "confusion",
            "floor",
            "flow-fit",
            "flow-synthesize",
            "gate",
            "items",
            "leaderboard",
            "ledger",
            "predictions",
            "replicate",
            "testbed",
            "train",
        )
    ),
]
LONG = tuple(f"docs/tutorials/{name}.md" for name in ("text", "your-model", "new-test-set"))
BLOCK = re.compile(r"^```(pycon|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def blocks(document: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "document", [pytest.param(name, marks=pytest.mark.soak if name in LONG else ()) for name in DOCUMENTS]
)
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
    """Run a command as the console script does, but in this process: importing torch thirty times takes minutes."""
    arguments = shlex.split(line, comments=True)[1:]
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told), warnings.catch_warnings():
        warnings.simplefilter("default")  # a user's interpreter does not turn them into errors, either
        with pytest.raises(SystemExit) as done:
            cli.main(arguments)
    if "torch" in sys.modules:
        # Numba's pool raises the number of threads for torch, too, and on a busy machine threads wait by spinning.
        sys.modules["torch"].set_num_threads(1)
    assert done.value.code in (0, None), f"{line}: {told.getvalue()}"
    assert out.getvalue().strip(), f"{line} says nothing"


def test_readme_begins_with_exactly_two_commands():
    first = next(text for language, text in blocks("README.md") if language == "sh")
    assert [line.partition("#")[0].strip() for line in first.splitlines()] == ["make audit", "make test"]


def pages() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *pages()])
def test_links_into_the_repository_lead_somewhere(document):
    text = re.sub(
        r"^```.*?^```$", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    for target in LINK.findall(text):
        if "://" not in target:
            assert ((ROOT / document).parent / target).exists(), f"{document} links to {target}, which is not there"


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    missing = [page for page in pages() if page.removeprefix("docs/") not in listed]
    assert not missing, f"not in mkdocs.yml: {', '.join(missing)}"


def test_every_command_has_a_page():
    shown = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in pages() if "/commands/" in page)
    for name in cli.COMMANDS:
        assert f"hardpan {name}" in shown, f"no page of docs/commands shows hardpan {name}"


@pytest.mark.parametrize("picture", sorted(path.name for path in (ROOT / "docs" / "images").iterdir()))
def test_pictures_are_small(picture):
    assert (ROOT / "docs" / "images" / picture).stat().st_size < 100_000


def test_the_notebook_runs_and_shows_first_screens(tmp_path, monkeypatch):
    """Every code cell runs as in a notebook; a report's view stays below 300 kB, other values in one line."""
    monkeypatch.chdir(tmp_path)
    book = json.loads((ROOT / "docs" / "tutorials" / "notebook.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    views = []
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop()
            exec(compile(tree, "cell", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            kept = {key for output in cell["outputs"] for key in output.get("data", ())}
            assert ("text/html" in kept) == hasattr(value, "_repr_html_")
            if isinstance(value, Report):
                views.append(value._repr_html_())
            elif not hasattr(value, "_repr_html_"):
                assert "\n" not in repr(value)
    assert views
    assert all(len(view.encode()) < 300_000 and "<script" not in view for view in views)


@pytest.mark.parametrize(
    "page", sorted(path.name for path in (ROOT / "docs" / "api").glob("*.md") if path.stem != "index")
)
def test_every_name_of_an_api_page_can_be_imported(page):
    text = (ROOT / "docs" / "api" / page).read_text(encoding="utf-8")
    names = re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)
    assert names
    for name in names:
        assert pkgutil.resolve_name(name) is not None, name


def commands() -> dict[str, typer.core.TyperCommand]:
    """Every command by its name, such as "leaderboard rank"."""
    return {" ".join(filter(None, key)): item for key, item in invocations.commands().items()}


def options_of(command: typer.core.TyperCommand) -> set[str]:
    """The options of a command, and "NAME=" for each of its settings."""
    options = {text for item in command.params for text in (*item.opts, *item.secondary_opts)}
    settings = getattr(command.callback, "settings", None)
    return options | ({f"{name}=" for name in settings.by_name} if settings and "--set" in options else set())


def test_commands_and_options_in_the_text_exist():
    """Of every `hardpan ...` in a document or in the help of a command, also of those that no test runs."""
    known = commands()
    options = {name: options_of(command) for name, command in known.items()}
    groups = {name.partition(" ")[0] for name in known}
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    }
    texts |= {name: re.sub(r"\[/?bold\]", "`", command.help or "") for name, command in known.items()}
    unknown = []
    for source, text in texts.items():
        blocks = "".join(re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
        lines = re.findall(r"^ *(?:- run: )?(hardpan [a-z].*)", blocks, re.MULTILINE)
        for line in lines + re.findall(r"`(hardpan [a-z][^`]*)`", text):
            words = re.sub(r" #.*", "", line).split()[1:]
            name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
            used = {word for word in words if re.match(r"-+[a-z]", word)} - {"--help"}
            used |= set(re.findall(r"--set (\w+=)", line))
            of_path = name in opening.names() or re.search(r"[./]", name)  # hardpan PATH
            if of_path and used <= {"--go", "--json"}:
                continue
            group_alone = name in groups and not used and not re.match(r"[a-z]", "".join(words[1:2]))
            if not group_alone and not (name in known and used <= options[name]):
                unknown.append(f"{source}: {line}")
    assert not unknown


# Options of other programs, and of examples.
OTHERS = {"--log", "--output", "--head", "--samples", "--tasks", "--nproc-per-node", "--compact", "--priors"}
OTHERS |= {"--dump-eval-details"}


def test_options_that_messages_and_pages_name_exist():
    """Each is an option, or a setting, of some command."""
    known = set().union(*map(options_of, commands().values())) | OTHERS | {"--help", "NAME="} | {"--help"}
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/hardpan").rglob("*.py"))}
    sources = {path: text for path, text in sources.items() if path.parent.name != "cli"}
    pages = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/commands").glob("*.md"))}
    pages |= {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/problems").glob("*.md"))}
    unknown = [
        f"{path.relative_to(ROOT)}: {option}"
        for path, text in (sources | pages).items()
        for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]\b|(?<=--set )\w+=", text)
        if option not in known
    ]
    assert not unknown, "\n".join(unknown)


def test_the_guide_leads_to_every_command():
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    linked = {name for names in re.findall(r"\[(`hardpan [^\]]*`)\]", text) for name in _expanded(names)}
    assert linked >= set(commands())


def _expanded(names: str) -> list[str]:
    """The commands of a text such as "`hardpan ledger init`, `submit`"."""
    first, *others = re.findall(r"`([^`]+)`", names)
    words = first.split()[1:]
    return [" ".join(words[:2]), words[0], *(f"{words[0]} {other}" for other in others)]


def test_every_kind_of_problem_has_a_page():
    folder = ROOT / "docs" / "problems"
    listed = (folder / "index.md").read_text(encoding="utf-8")
    for kind in problems.KINDS:
        assert f"Kind: `{kind}`" in (folder / f"{kind}.md").read_text(encoding="utf-8")
        assert f"[`{kind}`]({kind}.md)" in listed


def test_lower_limits_because_of_advisories_are_those_of_the_package():
    rows = re.findall(
        r"^\| ([\w-]+) \| ([\d.]+) \| (?:CVE|GHSA)", (ROOT / "docs/security.md").read_text(), re.MULTILINE
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    limits = {
        name: {text for group in groups for text in group if re.match(rf"{name}\b", text)} for name, _ in rows
    }
    assert rows
    assert limits == {name: {f"{name}>={version}"} for name, version in rows}
