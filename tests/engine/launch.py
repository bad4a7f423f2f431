"""Starts torchrun with two processes, and leaves none behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


ABORTED = "terminate called without an active exception"
"""Said where a thread was not joined: about one run of 15 ends so inside torch on a busy machine."""


def torchrun(module: str, *arguments: str, seconds: float = 240) -> None:
    """Run a module in two processes of one thread each, to its end; once more where torch aborts."""
    said = _run(module, *arguments, seconds=seconds)
    if ABORTED in said:
        said = _run(module, *arguments, seconds=seconds)
    assert not said, said


def _run(module: str, *arguments: str, seconds: float) -> str:
    """What a run that fails says; empty where it succeeds."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone", "-m", module]
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=ROOT,
        env=dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return "" if process.returncode == 0 else said or f"exit status {process.returncode}"
