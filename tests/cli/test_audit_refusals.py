"""What ``hardpan audit`` cannot audit: exit code 2, one sentence, and nothing left behind."""

from pathlib import Path

import numpy as np
import pytest

from hardpan import cli

BARE = ("--ensemble", "none", "--flow", "none")
RNG = np.random.default_rng(0)


def npz(folder: Path, **arrays: np.ndarray) -> str:
    np.savez(folder / "data.npz", **arrays)
    return str(folder / "data.npz")


def other_ids(folder: Path) -> tuple[str, ...]:
    np.savez(folder / "other.npz", probs=np.full((3, 10), 0.1), ids=np.array(["a", "b", "c"]))
    return ("digits", "--predictions", str(folder / "other.npz"))


def fresh_without_labels(folder: Path) -> tuple[str, ...]:
    np.savez(folder / "fresh.npz", x=RNG.normal(size=(20, 8, 8)))
    return ("digits", "--set", f"new_test={folder / 'fresh.npz'}")


REFUSED = {
    "no labels": (lambda folder: (npz(folder, x=RNG.normal(size=(40, 3))),), "has no labels"),
    "2 examples": (lambda folder: (npz(folder, x=np.eye(2), y=np.arange(2)),), "has 2 examples"),
    "predictions for other ids": (other_ids, "other"),
    "votes of other classes": (
        lambda folder: ("digits", "--votes", npz(folder, votes=np.ones((5, 3)))),
        "votes",
    ),
    "a fresh set without labels": (fresh_without_labels, "has no labels"),
    "a testbed that is not there": (lambda folder: ("digits", "--set", f"testbed={folder / 'no.csv'}"), "no.csv"),
    "a flow that is not there": (lambda folder: ("digits", "--flow", str(folder / "no-flow")), "no-flow"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_one_sentence_and_leaves_nothing(case, capsys, tmp_path, monkeypatch):
    make, words = REFUSED[case]
    arguments = make(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    more = BARE if "--flow" not in arguments else BARE[:2]
    code, out, err = refused(capsys, *arguments, *more, "--out", str(tmp_path / "deep" / "out"))
    assert (code, out) == (2, "")
    sentence = err.splitlines()[-1]
    assert sentence.startswith("hardpan: ")
    assert words in sentence
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before, "something was written"


def test_a_folder_that_cannot_be_made_is_refused_in_one_sentence(capsys, tmp_path, monkeypatch):
    def refuse(self, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)  # root may write where others may not
    code, out, err = refused(capsys, "digits", *BARE, "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert "out" in err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_an_old_report_survives_a_refusal(capsys, tmp_path):
    out = tmp_path / "out"
    done, _, _ = refused(capsys, "digits", *BARE, "--out", str(out))
    assert done == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    code, _, _ = refused(capsys, *other_ids(tmp_path), *BARE, "--out", str(out))
    assert code == 2
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["audit", *arguments])
    shown = capsys.readouterr()
    return stopped.value.code, shown.out, shown.err
