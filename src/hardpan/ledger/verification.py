"""Checking a ledger from outside: without the key, against published heads, and by replaying every answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from hardpan.errors import InputError
from hardpan.files import record
from hardpan.ledger import chain, ladder
from hardpan.ledger.ledger import ledger_holdout_errors
from hardpan.ledger.sealing import SEALED, SecretLabels, read_revealed_labels, unlock_labels
from hardpan.ledger.submissions import IDS, read_submission, stored_submissions, submission_hash
from hardpan.report import Report


@record(kind="Check")
class LedgerCheck(Report):
    """What ``verify`` found: ``ok`` when there is no problem; ``replayed`` when every answer was computed again."""

    ok: bool
    entries: int
    submissions: int
    head: str
    replayed: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def verify_ledger(
    folder: Path,
    *,
    heads: Sequence[str] = (),
    key: bytes | None = None,
    revealed: str | os.PathLike[str] | None = None,
) -> LedgerCheck:
    """See :meth:`hardpan.ledger.Ledger.verify`."""
    problems: list[str] = []
    warnings: list[str] = []
    entries: tuple[chain.Entry, ...] = ()
    replayed = False
    try:
        header, header_hash = chain.read_ledger_header(folder)
        stored = stored_submissions(folder)  # before the log: each was named after its entry was written
        log, behind = chain.read_log_and_head(folder, header, header_hash)
        entries = log.entries
        if log.torn:
            warnings.append(
                f"log ends in {log.torn} bytes of an entry that was never answered; the next submission cuts them"
            )
        if behind:
            warnings.append("last entry was interrupted before its answer; the next submission completes it")
        problems += [
            f"log line {e['number'] + 1} is not signed by the owner"
            for e in entries
            if not chain.chain_entry_is_signed(e, header)
        ]
        problems += _ledger_file_problems(folder, header)
        problems += _ladder_rule_problems(folder, header, entries)
        # Stored predictions were counted once: without their entry, an older log was put back.
        lost = sorted(stored - {e["submission"] for e in entries if e["kind"] == "submission"})
        if lost:
            problems.append(
                f"{len(lost)} stored submissions have no entry in the log (first {lost[0][:12]}); log and head "
                "were replaced by older ones"
            )
        problems += [
            f"published head {head} is not in this log; history was rewritten or cut"
            for head in heads
            if head not in {entry["hash"] for entry in entries}
        ]
        if key is not None or revealed is not None:
            secret = (
                unlock_labels(folder, header, key)
                if key is not None
                else read_revealed_labels(Path(str(revealed)), header)
            )
            problems += _ladder_replay_problems(folder, header, entries, secret)
            replayed = True
    except InputError as error:
        problems.append(str(error))
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # linked as ours, but not written by us
        problems.append(f"an entry lacks what every entry has ({error!r}); the log was changed")
    return LedgerCheck(
        ok=not problems,
        entries=len(entries),
        submissions=sum(e["kind"] == "submission" for e in entries),
        head=entries[-1]["hash"] if entries else "",
        replayed=replayed,
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def _ledger_file_problems(folder: Path, header: dict[str, Any]) -> list[str]:
    problems = []
    for name, field in ((SEALED, "sealed_sha256"), (IDS, "ids_sha256")):
        if header[field] is None:
            continue
        try:
            same = chain.chain_hash((folder / name).read_bytes()) == header[field]
        except OSError:
            same = False
        if not same:
            problems.append(f"{name} is missing or does not match its published hash")
    return problems


def _ladder_rule_problems(folder: Path, header: dict[str, Any], entries: Sequence[chain.Entry]) -> list[str]:
    """The log must read as the Ladder writes: the first answer is released, later ones fall, none counts twice."""
    problems: list[str] = []
    best: int | None = None
    seen: set[str] = set()
    closed = False
    for number, entry in enumerate(entries):
        where, kind = f"log line {number + 1}", entry["kind"]
        if (kind == "init") != (number == 0) or kind not in ("init", "submission", "opening", "reveal"):
            problems.append(f"{where}: an entry of kind {kind!r} is not allowed here")
        closed = closed or kind == "reveal"
        if kind != "submission":
            continue
        rung, submission = entry["rung"], entry["submission"]
        if closed:
            problems.append(f"{where}: a submission was counted after the labels were revealed")
        if submission in seen:
            problems.append(f"{where}: submission {submission[:12]} is counted twice")
        if entry["improved"] != (best is None or rung < best) or (best is not None and rung > best):
            problems.append(f"{where}: the answer does not follow the Ladder's rule")
        if not 0 <= rung < ladder.ladder_rungs(Fraction(header["step"])):
            problems.append(f"{where}: the answer is no multiple of the step between 0 and 1")
        seen.add(submission)
        best = rung
        try:
            stored = read_submission(folder, submission).astype("<i4").tobytes()
        except InputError as error:
            problems.append(str(error))
        else:
            if submission_hash(header, stored) != submission:
                problems.append(f"{where}: stored predictions do not match their hash")
    return problems


def _ladder_replay_problems(
    folder: Path, header: dict[str, Any], entries: Sequence[chain.Entry], secret: SecretLabels
) -> list[str]:
    problems = []
    used, step = ~secret.held_out, Fraction(header["step"])
    best: int | None = None
    for entry in entries:
        where = f"log line {entry['number'] + 1}"
        if entry["kind"] == "submission":
            wrong = int((read_submission(folder, entry["submission"])[used] != secret.labels[used]).sum())
            own, logged = ladder.climb_ladder(best, wrong, int(used.sum()), step), int(entry["rung"])
            if own != logged:
                problems.append(
                    f"{where}: the Ladder gives {float(own * step):g}, the log {float(logged * step):g}"
                )
            best = logged
        elif entry["kind"] == "opening":
            for submission, logged in entry["errors"].items():
                counted = ledger_holdout_errors(folder, secret, submission)
                if counted != logged:
                    problems.append(
                        f"{where}: submission {submission[:12]} errs {counted} times, the log says {logged}"
                    )
    return problems
