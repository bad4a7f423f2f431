"""What an import may bring along, seen from a fresh interpreter; and contracts that can fail."""

import configparser
import importlib
import importlib.util
import json
import pkgutil
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from tests import record_kinds

import hardpan

ROOT = Path(__file__).resolve().parent.parent
HEAVY = {"torch", "sklearn", "scipy", "numpy", "altair", "vl_convert", "jinja2", "typer", "rich"}
CONTRACTS = configparser.ConfigParser()
CONTRACTS.read(ROOT / ".importlinter")
LAYERS = CONTRACTS["importlinter:contract:layers"]["layers"].split("\n")
# Everything below engine computes without torch; report draws.
COMPUTING = [
    name
    for layer in LAYERS[LAYERS.index("engine") + 1 :]
    for name in re.findall(r"\w+", layer)
    if importlib.util.find_spec(f"hardpan.{name}") and name != "report"
]


def modules_after(statement: str) -> set[str]:
    program = f"{statement}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_import_hardpan_brings_nothing_heavy():
    assert not modules_after("import hardpan") & HEAVY


def test_a_gaussian_bayes_error_needs_scipy_alone():
    used = modules_after("import hardpan; hardpan.bayes.gaussian([[0.0], [2.0]])")
    assert not used & {"zarr", "altair", "numba", "sklearn", "pyarrow"}


@pytest.mark.parametrize("name", COMPUTING)
def test_computing_brings_neither_torch_nor_drawing(name):
    assert not modules_after(f"import hardpan.{name}") & {
        "torch",
        "altair",
        "vl_convert",
        "jinja2",
        "typer",
        "rich",
    }


def test_learning_curves_run_where_nothing_can_be_drawn():
    assert not modules_after("import hardpan.learning_curves") & {"altair", "vl_convert", "jinja2"}


@pytest.mark.parametrize("contract", ["no-torch", "computing"])
def test_contracts_name_every_computing_package(contract):
    named = CONTRACTS[f"importlinter:contract:{contract}"]["source_modules"].split()
    assert {f"hardpan.{name}" for name in COMPUTING} <= set(named)


def test_the_command_line_starts_without_torch_sklearn_and_altair():
    assert not modules_after("import hardpan.cli") & {"torch", "sklearn", "altair", "vl_convert"}


def test_every_named_submodule_can_be_reached_from_the_package():
    done = subprocess.run(
        [sys.executable, "-c", "import hardpan; [getattr(hardpan, name) for name in hardpan.__all__]"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_every_public_name_can_be_reached_and_dir_shows_nothing_else() -> None:
    modules = [item for item in hardpan.__all__ if isinstance(getattr(hardpan, item), types.ModuleType)]
    packages = [item for item in modules if hasattr(getattr(hardpan, item), "__path__")]
    for name in (*packages, "auditing", "execution", "engine", "outcomes"):
        module = importlib.import_module(f"hardpan.{name}")
        assert [item for item in dir(module) if not item.startswith("__")] == sorted(module.__all__), name
        assert all(hasattr(module, item) for item in module.__all__), name


def test_an_unknown_submodule_is_an_attribute_error():
    import hardpan

    with pytest.raises(AttributeError, match="'nothing'"):
        _ = hardpan.nothing


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("stats/planted.py", "import hardpan.bayes\n"),
        ("bayes/planted.py", "import torch\n"),
        ("data/planted.py", "import hardpan.pages\n"),
        ("data/planted.py", "import altair\n"),
        ("unlisted.py", '"""A package that no contract names."""\n'),
    ],
)
def test_a_planted_forbidden_import_breaks_a_contract(tmp_path, module, line):
    shutil.copytree(ROOT / "src" / "hardpan", tmp_path / "hardpan", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    (tmp_path / "hardpan" / module).write_text(line)
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [lint, "--no-cache", "--no-logo"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "broken" in done.stdout.lower()


def test_no_public_name_hides_a_module_of_its_package() -> None:
    # `hardpan.stats.ranks` would be the function or the module, whichever was imported last, and have no page.
    clashes = []
    for info in pkgutil.walk_packages(hardpan.__path__, "hardpan."):
        if info.ispkg:
            package = importlib.import_module(info.name)
            modules = {item.name for item in pkgutil.iter_modules(package.__path__)}
            names = modules.intersection(getattr(package, "__all__", ()))
            clashes += [f"{info.name}.{n}" for n in names if not isinstance(getattr(package, n), types.ModuleType)]
    assert clashes == []


def test_the_table_of_records_names_the_module_of_every_kind() -> None:
    table = json.loads(record_kinds.TABLE.read_text(encoding="utf-8"))
    assert table == record_kinds.kinds(), "run: python tests/record_kinds.py"
