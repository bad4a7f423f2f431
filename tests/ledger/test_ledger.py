"""Sealing, submitting, crashes, the super hold-out and the command."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ledger.conftest import KEY, LABELS, guesses

from hardpan import Predictions, ledger
from hardpan.cli import main
from hardpan.errors import InputError, MissingExtra
from hardpan.ledger import chain, ladder, sealing

# Sealing


def test_labels_are_not_readable_at_rest_and_match_the_commitment(book: Path) -> None:
    packed = LABELS.astype("<i4").tobytes()
    for path in book.rglob("*"):
        if path.is_file():
            assert packed[:64] not in path.read_bytes()
    header, _ = chain.read_ledger_header(book)
    secret = sealing.unlock_labels(book, header, KEY)
    assert (secret.labels == LABELS).all()
    assert secret.held_out.sum() == 100
    assert chain.chain_hash(secret.content()) == header["commitment"]
    with pytest.raises(InputError, match="key"):
        sealing.unlock_labels(book, header, bytes(32))


def test_same_labels_give_different_commitments(tmp_path: Path) -> None:
    for name in "ab":
        ledger.create(tmp_path / name, LABELS, KEY)
    assert ledger.open(tmp_path / "a").status().commitment != ledger.open(tmp_path / "b").status().commitment


def test_key_file_is_private_and_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key"
    sealing.write_owner_key(path, KEY)
    assert path.stat().st_mode & 0o777 == 0o600
    assert sealing.read_owner_key(path) == KEY
    with pytest.raises(InputError, match="key"):
        sealing.write_owner_key(path, KEY)
    path.chmod(0o644)
    with pytest.raises(InputError, match="mode"):
        sealing.read_owner_key(path)
    monkeypatch.setenv(sealing.KEY_VARIABLE, KEY.hex())
    assert sealing.read_owner_key(None) == KEY
    monkeypatch.setenv(sealing.KEY_VARIABLE, "beef")
    with pytest.raises(InputError, match="64"):
        sealing.read_owner_key(None)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o700), (0o022, 0o755)])
def test_a_ledger_has_the_mode_that_the_umask_gives(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        folder = ledger.create(tmp_path / "book", LABELS, KEY).folder
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir()) if path.is_dir()}
    assert modes == {mode}


def test_a_key_that_could_not_be_written_is_not_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="key"):
            ledger.create(tmp_path / "book", LABELS, tmp_path / "key")
    assert list(tmp_path.iterdir()) == []
    ledger.create(tmp_path / "book", LABELS, tmp_path / "key")


@pytest.mark.parametrize("folder", ["book", "./book", "book/inner"])
def test_the_key_is_not_at_the_path_of_the_folder(tmp_path: Path, folder: str) -> None:
    with pytest.raises(InputError) as caught:
        ledger.create(f"{tmp_path}/{folder}", LABELS, tmp_path / "book")
    assert caught.value.argument == "key"
    assert list(tmp_path.iterdir()) == []


def test_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    with pytest.raises(MissingExtra, match=r"hardpan\[ledger\]"):
        sealing.seal_labels(KEY, b"", b"")


# Submitting


def test_answers_are_the_ladder_s_and_replay(book: Path) -> None:
    header, _ = chain.read_ledger_header(book)
    used = ~sealing.unlock_labels(book, header, KEY).held_out
    best = None
    heads = []
    for i in range(6):
        predictions = guesses(i, 0.2 + 0.12 * i)
        answer = ledger.open(book, KEY).submit(predictions, name=f"m{i}")
        best = ladder.climb_ladder(best, int((predictions != LABELS)[used].sum()), 300, Fraction(1, 50))
        assert answer.error == float(best * Fraction(1, 50))
        assert answer.submissions == i + 1
        heads.append(answer.head)
    check = ledger.Ledger(book, KEY).verify(heads=heads)
    assert check.ok
    assert check.replayed
    assert check.submissions == 6


def test_log_tells_no_more_than_the_answers(book: Path) -> None:
    ledger.open(book, KEY).submit(guesses(0), name="m")
    entry = json.loads((book / chain.LOG).read_text().splitlines()[-1])
    assert set(entry) == {
        "kind", "time", "name", "submission", "rung", "improved", "number", "previous", "hash", "signature"
    }  # fmt: skip


def test_repeats_count_once_and_tell_nothing_new(book: Path) -> None:
    first = ledger.open(book, KEY).submit(guesses(1), name="a")
    ledger.open(book, KEY).submit(guesses(2, 0.9))
    again = ledger.open(book, KEY).submit(guesses(1), name="other name")
    assert again.repeated
    assert (again.error, again.improved, again.name, again.bound) == (first.error, first.improved, "a", first.bound)
    assert ledger.open(book).status().submissions == 2


def test_scores_are_taken_by_their_largest_column(book: Path) -> None:
    predictions = guesses(1)
    answer = ledger.open(book, KEY).submit(np.eye(10)[predictions])
    assert ledger.open(book, KEY).submit(predictions).submission == answer.submission


def test_text_classes_and_ids(tmp_path: Path) -> None:
    names = np.array(["cat", "dog", "emu"])[LABELS % 3]
    ids = [f"id-{i}" for i in range(LABELS.size)]
    ledger.create(tmp_path / "b", names, KEY, ids=ids, holdout=0)
    order = np.random.default_rng(0).permutation(LABELS.size)
    lines = "".join(f"{ids[i]},{names[i]}\n" for i in order)
    (tmp_path / "p.csv").write_text("id,prediction\n" + lines)
    assert ledger.open(tmp_path / "b", KEY).submit(tmp_path / "p.csv").error == 0
    (tmp_path / "q.csv").write_text("id,prediction\n" + lines.replace("id-7,", "id-x,"))
    with pytest.raises(InputError, match="'id-7'") as caught:
        ledger.open(tmp_path / "b", KEY).submit(tmp_path / "q.csv")
    assert caught.value.argument == "predictions"


def test_recorded_predictions_are_joined_by_id(tmp_path: Path) -> None:
    names = np.array(["cat", "dog", "emu"])[LABELS % 3]
    ids = [f"id-{i}" for i in range(LABELS.size)]
    book = ledger.create(tmp_path / "b", names, KEY, ids=ids, holdout=0)
    order = np.random.default_rng(0).permutation(LABELS.size)
    probs = np.eye(3)[LABELS[order] % 3]
    assert book.submit(Predictions.from_arrays(probs, ids=[ids[i] for i in order])).error == 0
    with pytest.raises(InputError, match="id"):
        book.submit(Predictions.from_arrays(probs))
    with pytest.raises(InputError, match="classes"):
        book.submit(Predictions.from_arrays(np.eye(4)[LABELS % 3], ids=ids))


@pytest.mark.parametrize(
    "predictions",
    [
        LABELS[:-1],
        LABELS + 1,
        LABELS - 1,
        LABELS + 0.5,
        LABELS.astype(str),
        np.zeros((400, 2, 2)),
        np.full((400, 10), np.nan),
    ],
)
def test_bad_predictions_are_refused_and_not_counted(book: Path, predictions: np.ndarray) -> None:
    with pytest.raises(InputError, match="predictions"):
        ledger.open(book, KEY).submit(predictions)
    assert ledger.open(book).status().submissions == 0


# Crashes


class Killed(BaseException):
    """Stands for a process that ends at this call."""


def test_crash_at_every_write_loses_nothing_and_counts_nothing_twice(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.open(book, KEY).submit(guesses(0))
    real, survived = os.fsync, 0
    for stop_at in itertools.count(1):
        calls = itertools.count(1)

        def dying(handle: int, calls: itertools.count = calls, stop_at: int = stop_at) -> None:  # type: ignore[type-arg]
            if next(calls) == stop_at:
                raise Killed
            real(handle)

        monkeypatch.setattr(os, "fsync", dying)
        try:
            ledger.open(book, KEY).submit(guesses(stop_at))
            survived = stop_at
        except Killed:
            pass
        monkeypatch.setattr(os, "fsync", real)
        assert ledger.Ledger(book, KEY).verify().ok  # also before anything was mended
        answer = ledger.open(book, KEY).submit(guesses(stop_at))
        assert answer.submissions == stop_at + 1
        check = ledger.Ledger(book, KEY).verify()
        assert (check.ok, check.submissions, check.warnings) == (True, stop_at + 1, ())
        if survived:
            break
    assert survived >= 5


@given(cut=st.integers(1, 400))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_torn_last_line_is_cut_and_the_submission_can_be_made_again(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("torn") / "book"
    ledger.create(folder, LABELS, KEY, step="0.02")
    ledger.open(folder, KEY).submit(guesses(0))
    head, before = (folder / chain.HEAD).read_bytes(), (folder / chain.LOG).stat().st_size
    name = f"{ledger.open(folder, KEY).submit(guesses(1)).submission}.npy"
    (folder / chain.SUBMISSIONS / name).rename(folder / chain.SUBMISSIONS / f"pending-{name}")
    (folder / chain.HEAD).write_bytes(head)  # power went before the head, in the middle of the line
    written = (folder / chain.LOG).read_bytes()
    (folder / chain.LOG).write_bytes(written[: max(before, len(written) - cut)])
    check = ledger.Ledger(folder, None).verify()
    assert check.ok
    assert ledger.open(folder, KEY).submit(guesses(1)).submissions == 2
    assert ledger.Ledger(folder, KEY).verify().warnings == ()


def _submit_many(folder: str, start: int) -> None:
    for i in range(start, start + 5):
        ledger.open(Path(folder), KEY).submit(guesses(i))


def test_processes_are_serialised(book: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_submit_many, args=(str(book), start)) for start in (0, 5, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    check = ledger.Ledger(book, KEY).verify()
    assert check.ok
    assert check.submissions == 10  # 0..9, with 3..7 sent twice


# The super hold-out


def test_holdout_is_scored_exactly_and_its_opening_recorded(book: Path) -> None:
    for i in range(3):
        ledger.open(book, KEY).submit(guesses(i, 0.5), name=f"m{i}")
    header, _ = chain.read_ledger_header(book)
    held = sealing.unlock_labels(book, header, KEY).held_out
    found = ledger.open(book, KEY).open_holdout(names=["m1", "m2"], reason="end of the contest")
    scores = found.scores
    assert scores["m1"].value == (guesses(1, 0.5) != LABELS)[held].mean()
    assert scores["m1"].confidence == pytest.approx(0.975)
    assert found.earlier_openings == 0
    ledger.open(book, KEY).submit(guesses(7))
    state = ledger.open(book).status()
    assert state.openings == 1
    assert state.after_opening == 1
    assert ledger.open(book, KEY).open_holdout().earlier_openings == 1
    assert ledger.Ledger(book, KEY).verify().ok
    with pytest.raises(InputError, match="'nobody'"):
        ledger.open(book, KEY).open_holdout(names=["nobody"])


# The command


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(item) for item in arguments])
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


def test_command_line_from_init_to_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "y.npy", LABELS)
    np.savez(tmp_path / "p.npz", predictions=guesses(0))
    book, key = tmp_path / "book", tmp_path / "key"
    assert (
        run(capsys, "ledger", "init", book, "--labels", tmp_path / "y.npy", "--key", key, "--holdout", "0.5")[0]
        == 0
    )
    code, out, _ = run(
        capsys, "ledger", "submit", book, tmp_path / "p.npz", "--key", key, "--name", "[a]", "--json"
    )
    assert code == 0
    head = json.loads(out)["head"]
    code, out, _ = run(capsys, book)
    assert "[a]" in out
    assert head in out
    assert run(capsys, "ledger", "verify", book, "--head", head, "--key", key)[0] == 0
    assert run(capsys, "ledger", "open", book, "--key", key)[0] == 0
    code, out, _ = run(capsys, "ledger", "verify", book, "--head", "0" * 64, "--json")
    assert code == 2
    assert json.loads(out)["ok"] is False
    code, out, err = run(capsys, "ledger", "submit", book, tmp_path / "nothing.csv", "--key", key)
    assert (code, out, err.count("\n")) == (2, "", 1)
    code, _, err = run(capsys, "ledger", "init", book, "--labels", tmp_path / "y.npy", "--key", tmp_path / "k2")
    assert code == 2
    assert not (tmp_path / "k2").exists()
    new = tmp_path / "new"
    code, out, err = run(capsys, "ledger", "init", new, "--labels", tmp_path / "y.npy", "--key", new)
    assert (code, out, err.count("\n"), new.exists()) == (2, "", 1, False)
    assert run(capsys, tmp_path)[0] == 2
