import os
import subprocess
import sys

import numpy as np
import pytest

import hardpan
from hardpan import cli
from hardpan.errors import InputError, MissingExtra


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        cli.main(list(arguments))
    shown = capsys.readouterr()
    return stopped.value.code, shown.out, shown.err


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"hardpan {hardpan.__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_lists_every_command_and_gives_an_example(capsys, arguments):
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "hardpan audit digits" in out
    for name in cli.COMMANDS:
        assert name in out


def test_a_value_out_of_range_is_named(capsys):
    code, _, message = run(capsys, "train", "digits", "--seeds", "0", "--out", "x")
    assert code == 2
    assert message.startswith("hardpan: --seeds must be")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("audti",), "hardpan: No such command 'audti'. Did you mean 'audit'? (see hardpan --help)\n"),
        (("--nonsense",), "hardpan: No such option: --nonsense"),
        (("audit",), "hardpan: Missing argument"),
        (("audit", "digits", "--seed", "-1"), "hardpan: --seed must be"),
        (("audit", "digits", "--seed", "x"), "hardpan: --seed must be"),
        (
            ("audit", "absent.npz"),
            "hardpan: dataset 'absent.npz': ",
        ),
        (("browse", "x" * 300), "hardpan: xxx"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_2(capsys, arguments, sentence):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def failing(monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("hardpan.training.runs.train", fail)


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (InputError("x must be finite; got NaN"), 2, "hardpan: x must be finite; got NaN\n"),
        (MissingExtra("torch", "flows"), 2, "hardpan: torch is not installed; run: pip install 'hardpan[flows]'\n"),
        (KeyboardInterrupt(), 130, "hardpan: interrupted; run the same command again to resume\n"),
    ],
)
def test_errors_raised_on_purpose(capsys, monkeypatch, tmp_path, error, code, sentence):
    failing(monkeypatch, error)
    found, out, err = run(capsys, "train", "digits", "--out", str(tmp_path / "o"))
    assert (found, out, err) == (code, "", sentence)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("error", [MemoryError(), MemoryError("Unable to allocate 1.49 GiB for an array")])
def test_too_little_memory_is_one_sentence_with_what_was_needed(capsys, monkeypatch, tmp_path, error):
    failing(monkeypatch, error)
    code, out, message = run(capsys, "train", "digits", "--out", str(tmp_path / "o"))
    assert (code, out, message.count("\n")) == (2, "", 1)
    assert str(error) in message
    assert "GB are available" in message


def test_a_limited_address_space_leaves_out_the_static_pictures_and_says_so(tmp_path):
    np.savez(tmp_path / "right.npz", scores=np.tril(np.ones((6, 40))))
    command = f"{sys.executable} -m hardpan leaderboard rank {tmp_path}/right.npz --out {tmp_path}/page"
    done = subprocess.run(["bash", "-c", f"ulimit -v 8000000; {command}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("without static pictures") == 1
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert '<div class="static" aria-hidden="true"></div>' in page
    assert "vegaEmbed" in page


def test_a_bug_exits_70_with_its_traceback(capsys, monkeypatch, tmp_path):
    failing(monkeypatch, ZeroDivisionError("bug"))
    code, out, err = run(capsys, "train", "digits", "--out", str(tmp_path / "o"))
    assert (code, out) == (70, "")
    assert "Traceback" in err
    assert "ZeroDivisionError: bug" in err


def test_completion_offers_the_commands():
    environment = os.environ | {"_HARDPAN_COMPLETE": "complete_bash", "COMP_WORDS": "hardpan a", "COMP_CWORD": "1"}
    found = subprocess.run([sys.executable, "-m", "hardpan"], capture_output=True, text=True, env=environment)
    assert found.stdout.split() == ["audit"]


def test_listing_commands_imports_none_of_the_heavy_parts():
    code = (
        "import sys\nimport hardpan.cli as c\n"
        "try:\n    c.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'altair', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
