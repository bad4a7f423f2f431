"""The query ledger: the Ladder's rule and bound, sealing, the chain, and what a crash or a forger can do."""

from __future__ import annotations

import itertools
import json
import math
import multiprocessing
import os
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardpan import ledger
from hardpan.cli import main
from hardpan.errors import InputError, MissingExtra
from hardpan.ledger import chain, ladder, sealing, vault
from hardpan.ledger.inputs import as_classes

KEY = bytes(range(32))
LABELS = np.random.default_rng(0).integers(0, 10, 400)


def guesses(seed: int, accuracy: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng([1, seed])
    return np.where(rng.random(LABELS.size) < accuracy, LABELS, rng.integers(0, 10, LABELS.size))


@pytest.fixture
def book(tmp_path: Path) -> Path:
    ledger.create(tmp_path / "book", LABELS, KEY, step="0.02", holdout=0.25)
    return tmp_path / "book"


@pytest.fixture(scope="module")
def used_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("used") / "book"
    ledger.create(folder, LABELS, KEY, step="0.02", holdout=0.25)
    for i in range(4):
        ledger.submit(folder, guesses(i, 0.3 + 0.1 * i), KEY, name=f"model {i}")
    ledger.open_holdout(folder, KEY)
    return folder


# The Ladder


@given(st.lists(st.integers(0, 200), min_size=1, max_size=30), st.sampled_from(["1/7", "0.01", "0.05", "1", "0.3"]))
def test_shown_error_is_within_one_step_of_the_least_empirical_error(errors: list[int], text: str) -> None:
    step, best = Fraction(text), None
    for i, wrong in enumerate(errors):
        new = ladder.climb(best, wrong, 200, step)
        assert best is None or new <= best
        if best is not None and Fraction(wrong, 200) >= best * step - step:
            assert new == best  # an improvement of no more than the step is not released
        best = new
        assert abs(best * step - Fraction(min(errors[: i + 1]), 200)) <= step
        assert 0 <= best < ladder.rungs(step)


@pytest.mark.parametrize(("rungs", "length"), [(2, 3), (3, 4), (4, 5)])
def test_bound_counts_the_transcripts_that_there_are(rungs: int, length: int) -> None:
    # Prefixes of at most length-1 answers that start with a release and only fall: count by brute force.
    counted: dict[int, int] = {0: 1}
    for n in range(1, length):
        for answers in itertools.product(range(rungs), repeat=n):
            if all(a >= b for a, b in itertools.pairwise(answers)):
                releases = len(set(answers))
                counted[releases] = counted.get(releases, 0) + 1
    for releases, count in counted.items():
        assert count == math.comb(length - 1, releases) * math.comb(rungs, releases)


def test_bound_by_hand() -> None:
    # t = 3 submissions, 2 releases before the third, step 1/2: rungs at 0, 1/2, 1.
    log_count = math.log(2 / 0.1) + math.log(12) + max(math.log(2), math.log(6 * 2 * 3), math.log(12 * 1 * 3))
    assert ledger.leaderboard_bound(50, 3, 2, "1/2", 0.1) == pytest.approx(0.5 + math.sqrt(log_count / 100))


@given(
    st.integers(10, 10**6), st.integers(1, 10**4), st.integers(0, 10**4), st.sampled_from([0.005, 0.01, 0.05, 0.1])
)
def test_bound_grows_with_submissions_and_beats_the_published_one(n: int, t: int, j: int, step: float) -> None:
    bound = ledger.leaderboard_bound(n, t, min(j, t), step)
    assert bound <= ledger.leaderboard_bound(n, t + 1, min(j, t) + 1, step)
    assert bound < ledger.published_bound(n, t, step)


def test_leaderboard_survives_an_attack_that_fools_exact_answers() -> None:
    # Labels are coins: every submission has true error 1/2. The attacker keeps what scored above chance and votes.
    rng = np.random.default_rng(3)
    n, k, step = 2000, 300, Fraction(1, 50)
    labels = rng.integers(0, 2, n)
    tries = rng.integers(0, 2, (k, n))
    exact = (tries != labels).mean(axis=1)
    vote = (tries[exact < 0.5].mean(axis=0) > 0.5).astype(int)
    assert (vote != labels).mean() < 0.44  # exact answers are overfitted by six points and more
    best, shown = None, []
    for attempt in tries:
        best = ladder.climb(best, int((attempt != labels).sum()), n, step)
        shown.append(best)
    improved = [i for i in range(k) if i == 0 or shown[i] < shown[i - 1]]
    vote = (tries[improved].mean(axis=0) > 0.5).astype(int)
    best = ladder.climb(best, int((vote != labels).sum()), n, step)
    bound = ledger.leaderboard_bound(n, k + 1, len(improved) + 1, step)
    assert abs(float(best * step) - 0.5) <= min(bound, 0.05)


@pytest.mark.parametrize("step", [0, -1, 1.5, "x", "1/0", float("nan")])
def test_bad_step_is_refused(step: object) -> None:
    with pytest.raises(InputError, match="step must be a number"):
        ladder.parse_step(step)  # type: ignore[arg-type]


# Sealing


def test_labels_are_not_readable_at_rest_and_match_the_commitment(book: Path) -> None:
    packed = LABELS.astype("<i4").tobytes()
    for path in book.rglob("*"):
        if path.is_file():
            assert packed[:64] not in path.read_bytes()
    header, _ = chain.read_header(book)
    secret = vault.unlock(book, header, KEY)
    assert (secret.labels == LABELS).all()
    assert secret.held_out.sum() == 100
    assert chain.digest(secret.content()) == header["commitment"]
    with pytest.raises(InputError, match="do not open with this key"):
        vault.unlock(book, header, bytes(32))


def test_same_labels_give_different_commitments(tmp_path: Path) -> None:
    for name in "ab":
        ledger.create(tmp_path / name, LABELS, KEY)
    assert ledger.status(tmp_path / "a").commitment != ledger.status(tmp_path / "b").commitment


def test_key_file_is_private_and_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key"
    ledger.write_key(path, KEY)
    assert path.stat().st_mode & 0o777 == 0o600
    assert ledger.read_key(path) == KEY
    with pytest.raises(InputError, match="exists already"):
        ledger.write_key(path, KEY)
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        ledger.read_key(path)
    monkeypatch.setenv(sealing.KEY_VARIABLE, KEY.hex())
    assert ledger.read_key(None) == KEY
    monkeypatch.setenv(sealing.KEY_VARIABLE, "beef")
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        ledger.read_key(None)


def test_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hardpan\[ledger\]'"):
        sealing.seal(KEY, b"", b"")


# Submitting


def test_answers_are_the_ladder_s_and_replay(book: Path) -> None:
    header, _ = chain.read_header(book)
    used = ~vault.unlock(book, header, KEY).held_out
    best = None
    heads = []
    for i in range(6):
        predictions = guesses(i, 0.2 + 0.12 * i)
        answer = ledger.submit(book, predictions, KEY, name=f"m{i}")
        best = ladder.climb(best, int((predictions != LABELS)[used].sum()), 300, Fraction(1, 50))
        assert answer.error == float(best * Fraction(1, 50))
        assert answer.submissions == i + 1
        heads.append(answer.head)
    check = ledger.verify(book, heads=heads, key=KEY)
    assert check.ok
    assert check.replayed
    assert check.submissions == 6


def test_log_tells_no_more_than_the_answers(book: Path) -> None:
    ledger.submit(book, guesses(0), KEY, name="m")
    entry = json.loads((book / chain.LOG).read_text().splitlines()[-1])
    assert set(entry) == {
        "kind", "time", "name", "submission", "rung", "improved", "number", "previous", "hash", "signature"
    }  # fmt: skip


def test_repeats_count_once_and_tell_nothing_new(book: Path) -> None:
    first = ledger.submit(book, guesses(1), KEY, name="a")
    ledger.submit(book, guesses(2, 0.9), KEY)
    again = ledger.submit(book, guesses(1), KEY, name="other name")
    assert again.repeated
    assert (again.error, again.improved, again.name, again.bound) == (first.error, first.improved, "a", first.bound)
    assert ledger.status(book).submissions == 2


def test_scores_are_taken_by_their_largest_column(book: Path) -> None:
    predictions = guesses(1)
    answer = ledger.submit(book, np.eye(10)[predictions], KEY)
    assert ledger.submit(book, predictions, KEY).submission == answer.submission


def test_text_classes_and_ids(tmp_path: Path) -> None:
    names = np.array(["cat", "dog", "emu"])[LABELS % 3]
    ids = [f"id-{i}" for i in range(LABELS.size)]
    ledger.create(tmp_path / "b", names, KEY, ids=ids, holdout=0)
    order = np.random.default_rng(0).permutation(LABELS.size)
    lines = "".join(f"{ids[i]},{names[i]}\n" for i in order)
    (tmp_path / "p.csv").write_text("id,prediction\n" + lines)
    predictions = ledger.read_predictions(tmp_path / "b", tmp_path / "p.csv")
    assert ledger.submit(tmp_path / "b", predictions, KEY).error == 0
    (tmp_path / "q.csv").write_text("id,prediction\n" + lines.replace("id-7,", "id-x,"))
    with pytest.raises(InputError, match="lack 1 of 400 ids, first 'id-7'"):
        ledger.read_predictions(tmp_path / "b", tmp_path / "q.csv")


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (LABELS[:-1], "must be 400 classes; got 399"),
        (LABELS + 1, "hold class 10, which is none of this ledger's 10 classes"),
        (LABELS - 1, "hold class -1"),
        (LABELS + 0.5, "must be whole numbers or text"),
        (LABELS.astype(str), "got text such as"),
        (np.zeros((400, 2, 2)), "one class an example"),
        (np.full((400, 10), np.nan), "must be finite"),
    ],
)
def test_bad_predictions_are_refused_and_not_counted(book: Path, predictions: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ledger.submit(book, predictions, KEY)
    assert ledger.status(book).submissions == 0


# Crashes


class Killed(BaseException):
    """Stands for a process that ends at this call."""


def test_crash_at_every_write_loses_nothing_and_counts_nothing_twice(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.submit(book, guesses(0), KEY)
    real, survived = os.fsync, 0
    for stop_at in itertools.count(1):
        calls = itertools.count(1)

        def dying(handle: int, calls: itertools.count = calls, stop_at: int = stop_at) -> None:  # type: ignore[type-arg]
            if next(calls) == stop_at:
                raise Killed
            real(handle)

        monkeypatch.setattr(os, "fsync", dying)
        try:
            ledger.submit(book, guesses(stop_at), KEY)
            survived = stop_at
        except Killed:
            pass
        monkeypatch.setattr(os, "fsync", real)
        assert ledger.verify(book, key=KEY).ok  # also before anything was mended
        answer = ledger.submit(book, guesses(stop_at), KEY)
        assert answer.submissions == stop_at + 1
        check = ledger.verify(book, key=KEY)
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
    ledger.create(folder, LABELS, KEY)
    ledger.submit(folder, guesses(0), KEY)
    head, before = (folder / chain.HEAD).read_bytes(), (folder / chain.LOG).stat().st_size
    ledger.submit(folder, guesses(1), KEY)
    (folder / chain.HEAD).write_bytes(head)  # power went before the head, in the middle of the line
    written = (folder / chain.LOG).read_bytes()
    (folder / chain.LOG).write_bytes(written[: max(before, len(written) - cut)])
    check = ledger.verify(folder)
    assert check.ok
    assert ledger.submit(folder, guesses(1), KEY).submissions == 2
    assert ledger.verify(folder, key=KEY).warnings == ()


def _submit_many(folder: str, start: int) -> None:
    for i in range(start, start + 5):
        ledger.submit(Path(folder), guesses(i), KEY)


def test_processes_are_serialised(book: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_submit_many, args=(str(book), start)) for start in (0, 5, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    check = ledger.verify(book, key=KEY)
    assert check.ok
    assert check.submissions == 10  # 0..9, with 3..7 sent twice


# Forgery


@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(1, 255), how=st.sampled_from("xdi"))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_of_one_byte_of_the_log_is_seen(used_book: Path, place: float, byte: int, how: str) -> None:
    path = used_book / chain.LOG
    content = path.read_bytes()
    at = int(place * len(content))
    middle = {"x": bytes([content[at] ^ byte]), "d": b"", "i": content[at : at + 1] + bytes([byte])}[how]
    path.write_bytes(content[:at] + middle + content[at + 1 :])
    try:
        check = ledger.verify(used_book)
        # A byte after the last newline is the beginning of a line that was never finished.
        assert not check.ok or (how == "i" and at == len(content) - 1 and check.warnings)
    finally:
        path.write_bytes(content)
    assert ledger.verify(used_book).ok


@pytest.mark.parametrize("spelling", [str.upper, lambda text: f"{text[:2]} {text[2:]}"])
def test_a_signature_spelled_otherwise_is_seen(used_book: Path, spelling: Callable[[str], str]) -> None:
    path = used_book / chain.LOG
    content = path.read_text()
    signature = next(text for text in re.findall(r'"signature":"([0-9a-f]+)"', content) if spelling(text) != text)
    try:
        path.write_text(content.replace(signature, spelling(signature)))
        assert not ledger.verify(used_book).ok
    finally:
        path.write_text(content)


@pytest.mark.parametrize("name", [chain.HEADER, chain.HEAD, chain.SEALED])
def test_changes_of_the_other_files_are_seen(used_book: Path, name: str) -> None:
    path = used_book / name
    content = path.read_bytes()
    try:
        for at in range(0, len(content), max(1, len(content) // 40)):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            assert not ledger.verify(used_book).ok
    finally:
        path.write_bytes(content)
    assert ledger.verify(used_book).ok


def test_swapped_predictions_are_seen(used_book: Path) -> None:
    path = sorted((used_book / chain.SUBMISSIONS).iterdir())[0]
    content = path.read_bytes()
    np.save(path, guesses(99).astype(np.int32))
    check = ledger.verify(used_book)
    path.write_bytes(content)
    assert "stored predictions do not match their hash" in check.problems[0]


def test_cut_log_is_seen_by_the_head_and_rolled_back_ledger_by_a_published_head(book: Path) -> None:
    ledger.submit(book, guesses(0), KEY)
    old = {name: (book / name).read_bytes() for name in (chain.LOG, chain.HEAD)}
    answer = ledger.submit(book, guesses(1), KEY)
    (book / chain.LOG).write_bytes(old[chain.LOG])
    assert "entries were removed" in ledger.verify(book).problems[0]
    with pytest.raises(InputError, match="entries were removed"):
        ledger.submit(book, guesses(2), KEY)
    (book / chain.HEAD).write_bytes(old[chain.HEAD])
    assert ledger.verify(book).ok  # nothing inside the folder can tell
    assert "history was rewritten" in ledger.verify(book, heads=[answer.head]).problems[0]


def test_outsider_cannot_add_an_entry(book: Path) -> None:
    ledger.submit(book, guesses(0), KEY)
    _, header_hash = chain.read_header(book)
    last = chain.read_log(book, header_hash).entries[-1]
    payload = {"kind": "submission", "name": "x", "submission": "0" * 64, "rung": 0, "improved": True, "time": ""}
    forged = chain.make_entry(last["number"] + 1, last["hash"], payload, bytes(32))
    with (book / chain.LOG).open("ab") as stream:
        stream.write(chain.canonical(forged) + b"\n")
    assert not ledger.verify(book).ok
    with pytest.raises(InputError, match="not signed"):
        ledger.submit(book, guesses(1), KEY)


def test_owner_who_answers_falsely_is_caught_once_labels_are_revealed(book: Path, tmp_path: Path) -> None:
    ledger.submit(book, guesses(0, 0.3), KEY)
    header, header_hash = chain.read_header(book)
    entries = chain.read_log(book, header_hash).entries
    predictions = guesses(1, 0.3).astype(np.int32)
    name = vault.submission_hash(header, predictions.astype("<i4").tobytes())
    vault.store_submission(book, name, predictions)
    payload = {"kind": "submission", "name": "friend", "submission": name, "rung": 1, "improved": True, "time": ""}
    chain.append(book, header_hash, chain.make_entry(len(entries), entries[-1]["hash"], payload, KEY), KEY)
    assert ledger.verify(book).ok
    out = ledger.reveal(book, KEY, tmp_path / "labels.npz")
    assert "the Ladder gives" in ledger.verify(book, revealed=out).problems[0]
    with pytest.raises(InputError, match="revealed"):
        ledger.submit(book, guesses(5), KEY)
    with np.load(out) as stored:
        arrays = dict(stored)
    arrays["labels"][0] += 1
    np.savez(out, **arrays)
    assert "does not match the published commitment" in ledger.verify(book, revealed=out).problems[0]


# The super hold-out


def test_holdout_is_scored_exactly_and_its_opening_recorded(book: Path) -> None:
    for i in range(3):
        ledger.submit(book, guesses(i, 0.5), KEY, name=f"m{i}")
    header, _ = chain.read_header(book)
    held = vault.unlock(book, header, KEY).held_out
    scores = ledger.open_holdout(book, KEY, names=["m1", "m2"], reason="end of the contest")
    assert scores["m1"].value == (guesses(1, 0.5) != LABELS)[held].mean()
    assert scores["m1"].confidence == pytest.approx(0.975)
    assert scores["m1"].notes == ()
    ledger.submit(book, guesses(7), KEY)
    state = ledger.status(book)
    assert state.openings == 1
    assert "1 submissions were made after" in state.warnings[0]
    assert ledger.open_holdout(book, KEY)["m0"].notes
    assert ledger.verify(book, key=KEY).ok
    with pytest.raises(InputError, match="no submission is called 'nobody'"):
        ledger.open_holdout(book, KEY, names=["nobody"])


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
        run(capsys, "ledger", "init", book, "--labels", tmp_path / "y.npy", "--key", key, "--step", "auto")[0] == 0
    )
    code, out, _ = run(
        capsys, "ledger", "submit", book, tmp_path / "p.npz", "--key", key, "--name", "[a]", "--json"
    )
    assert code == 0
    head = json.loads(out)["head"]
    code, out, _ = run(capsys, "ledger", "status", book)
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
    assert run(capsys, "ledger", "status", tmp_path)[0] == 2


# The doors


@given(content=st.binary(max_size=200), suffix=st.sampled_from([".npy", ".npz", ".csv", ".json", ".txt", ""]))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_read_or_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"answers{suffix}"
    path.write_bytes(content)
    try:
        answers = ledger.read_answers(path, ("prediction", "label"))
        as_classes(answers.values, "labels")
    except InputError:
        pass


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("a.csv", "label\n1\n0\n", [1, 0]),
        ("a.csv", "\ufeffid,label\nx,cat\ny,dog\n", ["cat", "dog"]),
        ("a.json", "[3, 1]", [3, 1]),
        ("a.json", '{"label": [3, 1]}', [3, 1]),
        ("a.json", '{"x": "cat", "y": "dog"}', ["cat", "dog"]),
    ],
)
def test_files_are_read_as_people_write_them(tmp_path: Path, name: str, text: str, values: list[object]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert ledger.read_answers(tmp_path / name, ("label",)).values.tolist() == values


@pytest.mark.parametrize("damaged", [chain.HEADER, chain.LOG, chain.HEAD, chain.SEALED])
@pytest.mark.parametrize("content", [None, b"", b"\xff\x00", b"[]", b"{}", b'{"kind":"ledger","schema":1}'])
def test_damaged_ledgers_are_refused_not_crashed_on(book: Path, damaged: str, content: bytes | None) -> None:
    if content is None:
        (book / damaged).unlink()
    else:
        (book / damaged).write_bytes(content)
    assert not ledger.verify(book).ok
    with pytest.raises(InputError):
        ledger.submit(book, guesses(0), KEY)
    if damaged != chain.SEALED:
        with pytest.raises(InputError):
            ledger.status(book)
