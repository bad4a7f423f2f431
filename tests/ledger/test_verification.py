"""What a forger can do, and whether it is noticed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ledger.conftest import KEY, guesses

from hardpan import ledger
from hardpan.errors import InputError
from hardpan.ledger import chain, sealing, submissions


@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(1, 255), how=st.sampled_from("xdi"))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_of_one_byte_of_the_log_is_seen(used_book: Path, place: float, byte: int, how: str) -> None:
    path = used_book / chain.LOG
    content = path.read_bytes()
    at = int(place * len(content))
    middle = {"x": bytes([content[at] ^ byte]), "d": b"", "i": content[at : at + 1] + bytes([byte])}[how]
    path.write_bytes(content[:at] + middle + content[at + 1 :])
    try:
        check = ledger.Ledger(used_book, None).verify()
        # A byte after the last newline is the beginning of a line that was never finished.
        assert not check.ok or (how == "i" and at == len(content) - 1 and check.warnings)
    finally:
        path.write_bytes(content)
    assert ledger.Ledger(used_book, None).verify().ok


@pytest.mark.parametrize("spelling", [str.upper, lambda text: f"{text[:2]} {text[2:]}"])
def test_a_signature_spelled_otherwise_is_seen(used_book: Path, spelling: Callable[[str], str]) -> None:
    path = used_book / chain.LOG
    content = path.read_text()
    signature = next(text for text in re.findall(r'"signature":"([0-9a-f]+)"', content) if spelling(text) != text)
    try:
        path.write_text(content.replace(signature, spelling(signature)))
        assert not ledger.Ledger(used_book, None).verify().ok
    finally:
        path.write_text(content)


@pytest.mark.parametrize("name", [chain.HEADER, chain.HEAD, sealing.SEALED])
def test_changes_of_the_other_files_are_seen(used_book: Path, name: str) -> None:
    path = used_book / name
    content = path.read_bytes()
    try:
        for at in range(0, len(content), max(1, len(content) // 40)):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            assert not ledger.Ledger(used_book, None).verify().ok
    finally:
        path.write_bytes(content)
    assert ledger.Ledger(used_book, None).verify().ok


def test_swapped_predictions_are_seen(used_book: Path) -> None:
    path = sorted((used_book / chain.SUBMISSIONS).iterdir())[0]
    content = path.read_bytes()
    np.save(path, guesses(99).astype(np.int32))
    check = ledger.Ledger(used_book, None).verify()
    path.write_bytes(content)
    assert "stored predictions do not match their hash" in check.problems[0]


def test_cut_log_is_seen_by_the_head_and_rolled_back_ledger_by_a_published_head(book: Path) -> None:
    ledger.open(book, KEY).submit(guesses(0))
    old = {name: (book / name).read_bytes() for name in (chain.LOG, chain.HEAD)}
    answer = ledger.open(book, KEY).submit(guesses(1))
    (book / chain.LOG).write_bytes(old[chain.LOG])
    assert "entries were removed" in ledger.Ledger(book, None).verify().problems[0]
    with pytest.raises(InputError, match="entries"):
        ledger.open(book, KEY).submit(guesses(2))
    (book / chain.HEAD).write_bytes(old[chain.HEAD])
    (problem,) = ledger.Ledger(book, None).verify().problems  # the predictions have no entry any more
    assert "1 stored submissions" in problem
    (book / chain.SUBMISSIONS / f"{answer.submission}.npy").unlink()
    assert ledger.Ledger(book, None).verify().ok  # with everything rolled back, only a published head can tell
    assert "history was rewritten" in ledger.Ledger(book, None).verify(heads=[answer.head]).problems[0]


def test_the_log_of_one_history_and_the_head_of_another_do_not_fit(book: Path) -> None:
    log = (book / chain.LOG).read_bytes()
    head = (book / chain.HEAD).read_bytes()
    first = ledger.open(book, KEY).submit(guesses(0))
    other_head = (book / chain.HEAD).read_bytes()
    (book / chain.LOG).write_bytes(log)
    (book / chain.HEAD).write_bytes(head)
    (book / chain.SUBMISSIONS / f"{first.submission}.npy").unlink()
    ledger.open(book, KEY).submit(guesses(1))  # both histories are signed by the owner
    assert ledger.Ledger(book, None).verify().ok
    (book / chain.HEAD).write_bytes(other_head)
    assert not ledger.Ledger(book, None).verify().ok
    with pytest.raises(InputError, match="head"):
        ledger.open(book, KEY).submit(guesses(2))


def test_outsider_cannot_add_an_entry(book: Path) -> None:
    ledger.open(book, KEY).submit(guesses(0))
    _, header_hash = chain.read_ledger_header(book)
    last = chain.read_log(book, header_hash).entries[-1]
    payload = {"kind": "submission", "name": "x", "submission": "0" * 64, "rung": 0, "improved": True, "time": ""}
    forged = chain.make_log_entry(last["number"] + 1, last["hash"], payload, bytes(32))
    with (book / chain.LOG).open("ab") as stream:
        stream.write(chain.chain_json(forged) + b"\n")
    assert not ledger.Ledger(book, None).verify().ok
    with pytest.raises(InputError, match="signed"):
        ledger.open(book, KEY).submit(guesses(1))


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({}, True),
        ({"rung": 0, "improved": True}, True),
        ({"rung": 0}, False),
        ({"improved": True}, False),
        ({"rung": 49}, False),
        ({"rung": -1, "improved": True}, False),
        ({"kind": "init"}, False),
        ({"kind": "note"}, False),
        ({"submission": "the first one's"}, False),
    ],
)
def test_owner_who_breaks_the_rules_is_caught_without_labels(book: Path, change: dict, allowed: bool) -> None:
    """Entries that are hashed and signed as they should be."""
    first = ledger.open(book, KEY).submit(guesses(0, 0.3))
    header, header_hash = chain.read_ledger_header(book)
    entries = chain.read_log(book, header_hash).entries
    predictions = guesses(1, 0.3).astype(np.int32)
    name = submissions.submission_hash(header, predictions.astype("<i4").tobytes())
    rung = entries[-1]["rung"]
    payload = {"kind": "submission", "name": "x", "submission": name, "rung": rung, "improved": False, "time": ""}
    payload |= change
    if "submission" in change:
        payload["submission"] = first.submission
    elif payload["kind"] == "submission":
        submissions.store_pending_submission(book, name, predictions)
        submissions.finish_pending_submissions(book, {name})
    chain.append_log_entry(book, header_hash, entries, KEY, payload)
    check = ledger.Ledger(book, None).verify()
    assert check.ok == allowed, check.problems


def test_owner_who_answers_falsely_is_caught_once_labels_are_revealed(book: Path, tmp_path: Path) -> None:
    ledger.open(book, KEY).submit(guesses(0, 0.3))
    header, header_hash = chain.read_ledger_header(book)
    entries = chain.read_log(book, header_hash).entries
    predictions = guesses(1, 0.3).astype(np.int32)
    name = submissions.submission_hash(header, predictions.astype("<i4").tobytes())
    submissions.store_pending_submission(book, name, predictions)
    submissions.finish_pending_submissions(book, {name})
    payload = {"kind": "submission", "name": "friend", "submission": name, "rung": 1, "improved": True, "time": ""}
    chain.append_log_entry(book, header_hash, entries, KEY, payload)
    assert ledger.Ledger(book, None).verify().ok
    out = ledger.open(book, KEY).reveal(tmp_path / "labels.npz")
    assert "the Ladder gives" in ledger.Ledger(book, None).verify(revealed=out).problems[0]
    with pytest.raises(InputError, match="revealed"):
        ledger.open(book, KEY).submit(guesses(5))
    with np.load(out) as stored:
        arrays = dict(stored)
    arrays["labels"][0] += 1
    np.savez(out, **arrays)
    assert "does not match the published commitment" in ledger.Ledger(book, None).verify(revealed=out).problems[0]


@pytest.mark.parametrize("damaged", [chain.HEADER, chain.LOG, chain.HEAD, sealing.SEALED])
@pytest.mark.parametrize("content", [None, b"", b"\xff\x00", b"[]", b"{}", b'{"kind":"ledger","schema":1}'])
def test_damaged_ledgers_are_refused_not_crashed_on(book: Path, damaged: str, content: bytes | None) -> None:
    if content is None:
        (book / damaged).unlink()
    else:
        (book / damaged).write_bytes(content)
    assert not ledger.Ledger(book, None).verify().ok
    with pytest.raises(InputError):
        ledger.open(book, KEY).submit(guesses(0))
    if damaged != sealing.SEALED:
        with pytest.raises(InputError):
            ledger.open(book).status()
