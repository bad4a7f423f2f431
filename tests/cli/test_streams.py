"""What a command does when its output cannot take everything: another encoding, a full disk, a reader that left."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


def hardpan(*arguments, stdout=subprocess.PIPE, **environment):
    return subprocess.run(
        [sys.executable, "-m", "hardpan", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def predictions(tmp_path_factory):
    path = tmp_path_factory.mktemp("streams") / "p.npz"
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 3, 12))
    np.savez(path, probs=rows, ids=np.array([f"é {i} 漢😀" for i in range(12)]))
    return str(path)


def test_a_terminal_of_ascii_gets_the_whole_text(predictions):
    done = hardpan("confusion", "score", predictions, **ASCII)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert b"Kendall's \\u03c4" in done.stdout


def test_json_in_ascii_says_the_same_as_in_utf8(predictions):
    plain = hardpan("confusion", "score", predictions, "--json", **ASCII)
    wide = hardpan("confusion", "score", predictions, "--json", PYTHONUTF8="1")
    assert plain.stdout.isascii()
    assert not wide.stdout.isascii()
    assert json.loads(plain.stdout) == json.loads(wide.stdout)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is of Linux")
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_full_disk_behind_the_output_is_told_in_one_sentence(predictions, form):
    with open("/dev/full", "w") as full:
        done = hardpan("confusion", "score", predictions, *form, stdout=full)
    lines = [line for line in done.stderr.decode().splitlines() if " % " not in line]
    assert done.returncode == 2
    assert len(lines) == 1
    assert lines[0].startswith("hardpan: the output: ")


def test_a_reader_that_has_gone_is_no_fault(predictions):
    read, write = os.pipe()
    os.close(read)
    try:
        done = hardpan("confusion", "score", predictions, "--json", stdout=write)
    finally:
        os.close(write)
    assert done.returncode == 141
    assert b"Error" not in done.stderr


def test_no_output_at_all_is_no_fault(predictions):
    command = f'"{sys.executable}" -m hardpan confusion score "{predictions}" >&-'
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, timeout=120, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
