"""The super hold-out, whose opening is recorded, and the revealing of all labels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import write_bytes
from hardpan.ledger import chain
from hardpan.ledger.vault import Secret, read_submission, unlock
from hardpan.stats import share


def open_holdout(folder: Path, key: bytes, *, names: Sequence[str] = (), reason: str = "") -> dict[str, Estimate]:
    """Score submissions on the super hold-out, and record for ever that it was opened.

    Each interval is Clopper–Pearson at level 1 − δ/k for the k submissions scored, so all k hold together with
    probability 1 − δ, provided that no submission came after an earlier opening.

    Args:
        names: names or sha256 (from the beginning) of the submissions to score; all where none are given.
        reason: why it was opened, for the record.
    """
    folder = Path(folder)
    header, header_hash = chain.read_header(folder)
    if header["holdout_examples"] == 0:
        raise InputError("this ledger has no super hold-out; make one with --holdout above 0")
    secret = unlock(folder, header, key)
    with chain.locked(folder):
        entries = chain.mend(folder, header, header_hash, key)
        chosen = _choose([e for e in entries if e["kind"] == "submission"], names)
        before = sum(e["kind"] == "opening" for e in entries)
        errors = {e["submission"]: holdout_errors(folder, secret, e["submission"]) for e in chosen}
        payload = {"kind": "opening", "time": chain.now(), "reason": reason, "errors": errors}
        entry = chain.make_entry(len(entries), entries[-1]["hash"], payload, key)
        chain.append(folder, header_hash, entry, key)
    notes = (
        (f"the hold-out was opened {before} times before: later submissions may have used what it told",)
        if before
        else ()
    )
    labels = {e["submission"]: e["name"] or e["submission"][:12] for e in chosen}
    if len(set(labels.values())) < len(labels):
        labels = {submission: f"{label} ({submission[:12]})" for submission, label in labels.items()}
    return {
        labels[submission]: _holdout_estimate(
            count, header["holdout_examples"], header["delta"] / len(chosen), notes
        )
        for submission, count in errors.items()
    }


def reveal(folder: Path, key: bytes, out: Path) -> Path:
    """Publish labels, hold-out and salt, so that anyone can replay every answer; closes the leaderboard."""
    folder, out = Path(folder), Path(out)
    header, header_hash = chain.read_header(folder)
    secret = unlock(folder, header, key)
    with chain.locked(folder):
        entries = chain.mend(folder, header, header_hash, key)
        if not any(e["kind"] == "reveal" for e in entries):
            entry = chain.make_entry(
                len(entries), entries[-1]["hash"], {"kind": "reveal", "time": chain.now()}, key
            )
            chain.append(folder, header_hash, entry, key)
        buffer = io.BytesIO()
        salt = np.frombuffer(secret.salt, np.uint8)
        np.savez(
            buffer, labels=secret.labels, held_out=secret.held_out, salt=salt, classes=np.array(header["classes"])
        )
        write_bytes(out, buffer.getvalue())
    return out


def holdout_errors(folder: Path, secret: Secret, submission: str) -> int:
    """Count a submission's errors on the super hold-out."""
    codes = read_submission(folder, submission)
    return int((codes[secret.held_out] != secret.labels[secret.held_out]).sum())


def _choose(counted: list[chain.Entry], names: Sequence[str]) -> list[chain.Entry]:
    if not counted:
        raise InputError("there are no submissions to score; submit first")
    if not names:
        return counted
    chosen = []
    for name in names:
        found = [e for e in counted if e["name"] == name or (len(name) >= 8 and e["submission"].startswith(name))]
        if not found:
            raise InputError(f"no submission is called {name!r}; see ledger status")
        chosen += [e for e in found if e not in chosen]
    return chosen


def _holdout_estimate(errors: int, examples: int, miss: float, notes: tuple[str, ...]) -> Estimate:
    return replace(share(errors, examples, 1 - miss, method="super hold-out, Clopper–Pearson"), notes=notes)
