"""Ctrl-C while the command still loads ends it as Ctrl-C later does."""

import os
import subprocess
import sys


def test_ctrl_c_during_imports_is_quiet(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "hardpan", "--version"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
