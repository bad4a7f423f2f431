"""Making a ledger, submitting to it, and its public state."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import hardpan
from hardpan.errors import InputError
from hardpan.files import record, write_bytes
from hardpan.ledger import chain, ladder, sealing
from hardpan.ledger.vault import (
    IDS,
    draw_secret,
    encode_labels,
    encode_predictions,
    store_submission,
    submission_hash,
    unlock,
)


@record
@dataclass(frozen=True, slots=True)
class Answer:
    """What a submission is told, and no more: the leaderboard's error and whether this submission lowered it.

    Attributes:
        error: R_t, the least released error so far, a multiple of the step.
        improved: whether this submission was better than the earlier best by more than the step.
        bound: how far R_t can be from the least true error of all submissions, with probability 1 − ``delta``.
        submissions: how many different submissions the ledger has counted.
        submission: sha256 that names these predictions.
        repeated: these predictions were counted before; the answer is the recorded one and nothing was added.
        head: hash of the log's last entry; keep it, ``verify`` checks the log against it.
        entries: how many entries the log had at this head.
    """

    error: float
    improved: bool
    bound: float
    delta: float
    submissions: int
    submission: str
    name: str
    repeated: bool
    head: str
    entries: int


@record
@dataclass(frozen=True, slots=True)
class Status:
    """The public state of a ledger."""

    name: str
    examples: int
    holdout_examples: int
    step: float
    delta: float
    submissions: int
    improvements: int
    best: str
    error: float
    bound: float
    published_bound: float
    openings: int
    revealed: bool
    commitment: str
    head: str
    entries: int
    warnings: tuple[str, ...] = ()


def create(
    folder: Path,
    labels: NDArray[Any],
    key: bytes,
    *,
    name: str = "benchmark",
    ids: Sequence[str] | None = None,
    classes: int | None = None,
    step: float | str | Fraction = 0.01,
    holdout: float = 0.5,
    delta: float = 0.05,
) -> str:
    """Seal a test set and begin its log; gives the first head.

    Args:
        folder: where the ledger will be; must not exist.
        labels: (N,) class numbers or names.
        key: the owner's 32 secret bytes (:func:`hardpan.ledger.new_key`).
        ids: (N,) names of the examples; submissions must then name theirs.
        classes: how many classes there are, where some have no example.
        step: the Ladder's η.
        holdout: fraction of the examples, chosen in secret, that no Ladder answer uses (the super hold-out).
        delta: probability with which the stated bound may fail.
    """
    folder, exact = Path(folder), ladder.parse_step(step)
    codes, class_names = encode_labels(labels, classes)
    if folder.exists():
        raise InputError(f"{folder} exists already; give a new folder for the ledger")
    if not 0 <= holdout < 1:
        raise InputError(f"holdout must lie in [0, 1); got {holdout}; 0.5 holds out every second example")
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1; got {delta}")
    if ids is not None and (len(ids) != len(codes) or len(set(ids)) != len(ids)):
        raise InputError(
            f"ids must name each of the {len(codes)} labels once; got {len(set(ids))} different of {len(ids)}"
        )
    secret = draw_secret(codes, round(holdout * len(codes)))
    ledger_id = secrets.token_hex(16)
    sealed = sealing.seal(key, secret.content(), ledger_id.encode())
    id_text = None if ids is None else json.dumps([str(item) for item in ids]).encode()
    header = {
        "kind": "ledger",
        "schema": 1,
        "hardpan": hardpan.__version__,
        "id": ledger_id,
        "name": name,
        "examples": len(codes),
        "ladder_examples": int((~secret.held_out).sum()),
        "holdout_examples": int(secret.held_out.sum()),
        "classes": class_names,
        "step": str(exact),
        "delta": delta,
        "commitment": chain.digest(secret.content()),
        "sealed_sha256": chain.digest(sealed),
        "ids_sha256": None if id_text is None else chain.digest(id_text),
        "public_key": sealing.public_key(key),
    }
    return _lay_out(folder, header, sealed, id_text, key)


def submit(folder: Path, predictions: NDArray[Any], key: bytes, *, name: str = "") -> Answer:
    """Count one submission and answer it by the Ladder; the same predictions again give the recorded answer.

    Args:
        folder: the ledger.
        predictions: (N,) classes, or (N, C) scores of which the largest counts, in the ledger's order.
        key: the owner's key.
        name: what to call the submission.
    """
    folder = Path(folder)
    header, header_hash = chain.read_header(folder)
    codes = encode_predictions(predictions, header)
    content = codes.astype("<i4").tobytes()
    submission = submission_hash(header, content)
    secret = unlock(folder, header, key)
    with chain.locked(folder):
        entries = chain.mend(folder, header, header_hash, key)
        earlier = next((e for e in entries if e["kind"] == "submission" and e["submission"] == submission), None)
        if earlier is not None:
            return _answer(header, entries, earlier, repeated=True)
        if any(e["kind"] == "reveal" for e in entries):
            raise InputError("this ledger's labels were revealed; its leaderboard is closed, make a new one")
        store_submission(folder, submission, codes)  # data first: a logged submission can always be replayed
        used = ~secret.held_out
        step, best = Fraction(header["step"]), current_rung(entries)
        rung = ladder.climb(best, int((codes[used] != secret.labels[used]).sum()), int(used.sum()), step)
        told: dict[str, Any] = {"rung": rung, "improved": rung != best}
        payload = told | {"kind": "submission", "time": chain.now(), "name": name, "submission": submission}
        entry = chain.make_entry(len(entries), entries[-1]["hash"], payload, key)
        chain.append(folder, header_hash, entry, key)
        return _answer(header, (*entries, entry), entry, repeated=False)


def status(folder: Path) -> Status:
    """Give the public state of a ledger; needs no key."""
    folder = Path(folder)
    header, header_hash = chain.read_header(folder)
    log, behind = chain.snapshot(folder, header, header_hash)
    counted = [e for e in log.entries if e["kind"] == "submission"]
    improved = [e for e in counted if e["improved"]]
    warnings = ["a submission was interrupted; the next one will finish its record"] if behind or log.torn else []
    openings = [e for e in log.entries if e["kind"] == "opening"]
    late = [e for e in counted if openings and e["number"] > openings[0]["number"]]
    if late:
        warnings.append(f"{len(late)} submissions were made after the super hold-out was first opened")
    rung, t = current_rung(log.entries), max(len(counted), 1)
    return Status(
        name=header["name"],
        examples=header["ladder_examples"],
        holdout_examples=header["holdout_examples"],
        step=float(Fraction(header["step"])),
        delta=header["delta"],
        submissions=len(counted),
        improvements=len(improved),
        best=(improved[-1]["name"] or improved[-1]["submission"][:12]) if improved else "",
        error=float("nan") if rung is None else float(rung * Fraction(header["step"])),
        bound=ladder.leaderboard_bound(
            header["ladder_examples"], t, len(improved), header["step"], header["delta"]
        ),
        published_bound=ladder.published_bound(header["ladder_examples"], t, header["step"], header["delta"]),
        openings=len(openings),
        revealed=any(e["kind"] == "reveal" for e in log.entries),
        commitment=header["commitment"],
        head=log.entries[-1]["hash"],
        entries=len(log.entries),
        warnings=tuple(warnings),
    )


def current_rung(entries: Sequence[chain.Entry]) -> int | None:
    """The rung that the leaderboard shows after these entries."""
    return next((int(e["rung"]) for e in reversed(entries) if e["kind"] == "submission"), None)


def _lay_out(folder: Path, header: dict[str, Any], sealed: bytes, id_text: bytes | None, key: bytes) -> str:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        content = chain.canonical(header) + b"\n"
        (temporary / chain.SUBMISSIONS).mkdir()
        write_bytes(temporary / chain.HEADER, content)
        write_bytes(temporary / chain.SEALED, sealed)
        if id_text is not None:
            write_bytes(temporary / IDS, id_text)
        first = chain.make_entry(0, chain.digest(content), {"kind": "init", "time": chain.now()}, key)
        chain.append(temporary, chain.digest(content), first, key)
        os.chmod(temporary, 0o755)
        os.rename(temporary, folder)
        chain.sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return str(first["hash"])


def _answer(header: dict[str, Any], entries: Sequence[chain.Entry], own: chain.Entry, *, repeated: bool) -> Answer:
    until = [e for e in entries[: own["number"] + 1] if e["kind"] == "submission"]
    improvements = sum(e["improved"] for e in until)
    return Answer(
        error=float(own["rung"] * Fraction(header["step"])),
        improved=own["improved"],
        bound=ladder.leaderboard_bound(
            header["ladder_examples"], len(until), improvements, header["step"], header["delta"]
        ),
        delta=header["delta"],
        submissions=sum(e["kind"] == "submission" for e in entries),
        submission=own["submission"],
        name=own["name"],
        repeated=repeated,
        head=entries[-1]["hash"],
        entries=len(entries),
    )
