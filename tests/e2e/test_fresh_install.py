"""A newcomer's first command, in a fresh clone with an empty environment."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout: nothing to clone"),
]


def bare_environment(home: Path) -> dict[str, str]:
    """Only what a login gives, and how this machine reaches its package index."""
    python = Path(shutil.which("python3") or "/usr/bin/python3").parent
    kept = {
        key: value
        for key, value in os.environ.items()
        if key.startswith(("PIP_", "SSL_")) or "proxy" in key.lower()
    }
    for name in ("pip.conf", ".config/pip/pip.conf", ".pip/pip.conf"):
        settings = Path.home() / name
        if settings.exists() and "PIP_CONFIG_FILE" not in kept:
            kept["PIP_CONFIG_FILE"] = str(settings)
    return kept | {"HOME": str(home), "PATH": f"{python}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def make(folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["make", "audit"], cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_make_audit_in_a_fresh_clone(tmp_path):
    clone = tmp_path / "hardpan"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    environment = bare_environment(tmp_path)

    said = make(clone, environment)
    assert "audits/digits/index.html" in said
    page = clone / "audits" / "digits" / "index.html"
    assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert (page.parent / "report.json").exists()
    assert (page.parent / "config.json").exists()

    installed = sorted(path.name for path in (clone / ".venv").rglob("*.dist-info"))
    said = make(clone, environment)
    assert "Installing" not in said
    assert "audits/digits/index.html" in said
    assert sorted(path.name for path in (clone / ".venv").rglob("*.dist-info")) == installed
    status = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert status.stdout == "", "make audit leaves files that git does not ignore"


def test_the_wheel_and_the_source_archive_work_in_an_empty_environment(tmp_path):
    environment = bare_environment(tmp_path)
    clone = tmp_path / "hardpan"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    dist = tmp_path / "dist"
    words = ["sh", str(clone / "scripts/release-check"), str(dist)]
    done = subprocess.run(
        words, env=environment | {"PYTHON": sys.executable}, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    for part in ("pages/page.html", "pages/page.css", "pages/page.js", "web/explorer/explorer.html", "py.typed"):
        assert f"hardpan/{part}" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]
