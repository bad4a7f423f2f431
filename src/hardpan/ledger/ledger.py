"""A sealed test set and its log: create, submit, status, the super hold-out, reveal."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import hardpan
from hardpan import arguments
from hardpan.arguments import as_path, real_number
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import locked, record, sync_folder, write_bytes
from hardpan.ledger import chain, ladder, sealing
from hardpan.ledger.labels import encode_labels, read_label_file
from hardpan.ledger.sealing import SecretLabels, draw_secret_labels, unlock_labels
from hardpan.ledger.submissions import (
    IDS,
    align_submitted_labels,
    encode_submitted_labels,
    finish_pending_submissions,
    logged_submissions_by_name,
    read_submission,
    store_pending_submission,
    submission_hash,
)
from hardpan.report import Report
from hardpan.stats import share

if TYPE_CHECKING:
    from hardpan.ledger.verification import LedgerCheck

Key = bytes | str | os.PathLike[str] | None
_Append = Callable[[Mapping[str, Any]], chain.Entry]


@record(kind="Answer")
class LedgerAnswer(Report):
    """The answer to a submission, and no more: the leaderboard's error and whether this submission lowered it.

    Attributes:
        error: R_t, the least released error so far, a multiple of the step.
        improved: whether this submission was better than the earlier best by more than the step.
        bound: how far R_t can be from the least true error of all submissions, with probability 1 − ``delta``.
        submissions: how many different submissions the ledger has counted.
        submission: sha256 that names these predictions.
        repeated: these predictions were submitted before; the answer is the recorded one and nothing was added.
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


@record(kind="Status", dropped=("published_bound",))
class LedgerStatus(Report):
    """The public state of a ledger.

    ``bound_limit`` is the bound that no submission may exceed: the worst-case one of as many submissions as were
    planned, which ``limit`` are (more are accepted while few improve); ``interrupted`` says that the last
    submission was cut off (the next one completes its record); ``after_opening`` counts submissions made after the
    super hold-out was first opened.
    """

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
    limit: int
    bound_limit: float
    unsafe: bool
    openings: int
    after_opening: int
    interrupted: bool
    revealed: bool
    commitment: str
    head: str
    entries: int


@record
class HoldoutScores(Report):
    """Errors on the super hold-out by submission, and how often it had been opened before."""

    scores: Mapping[str, Estimate]
    earlier_openings: int


def create(
    folder: str | os.PathLike[str],
    labels: Any,
    key: Key,
    *,
    name: str = "benchmark",
    ids: Sequence[str] | None = None,
    classes: int | None = None,
    step: float | str | Fraction = "auto",
    submissions: int = 1000,
    holdout: float = 0.0,
    delta: float = 0.05,
    unsafe: bool = False,
) -> Ledger:
    """Seal a test set and begin its log.

    Args:
        folder: where the ledger will be; must not exist.
        labels: (N,) class numbers or names, or an npy, npz, CSV (id, label) or JSON file of them.
        key: the owner's 32 secret bytes, or the path of a new file for a fresh key (mode 0600).
        name: name of the benchmark.
        ids: (N,) names of the examples; submissions by file must then name theirs.
        classes: number of classes, if some have no example.
        step: the Ladder's step, such as 0.05, or "auto": the step with the smallest bound after ``submissions``.
        submissions: planned number of submissions; more are accepted while the bound of the plan holds.
        holdout: fraction of the labels for a super hold-out, which no answer of the Ladder uses; 0: none.
        delta: probability with which the stated bound may fail.
        unsafe: accept a step that reveals single labels, or a bound of 1 or more.

    Example:
        >>> import tempfile
        >>> book = create(tempfile.mkdtemp() + "/book", np.arange(500) % 10, bytes(32))
        >>> book.submit(np.arange(500) % 10, name="perfect").error, book.status().step
        (0.0, 0.08333333333333333)
    """
    path = as_path("folder", folder)
    if path.exists():
        raise InputError(f"{path} exists already; give a new folder for the ledger")
    if isinstance(labels, (str, os.PathLike)):
        answers = read_label_file(Path(labels), "label")
        labels, ids = answers.values, answers.ids if ids is None else ids
    codes, class_names = encode_labels(labels, classes)
    real_number("holdout", holdout, "[0, 1)")
    real_number("delta", delta, "(0, 1)")
    names = None if ids is None else arguments.ids("ids", ids, len(codes)).tolist()
    secret = draw_secret_labels(codes, round(holdout * len(codes)))
    scored = int((~secret.held_out).sum())
    exact = ladder.suggested_step(scored, submissions, delta) if step == "auto" else ladder.parse_ladder_step(step)
    if not unsafe:
        ladder.check_ladder_step(scored, exact, submissions, delta)
    owner, written = _new_owner_key(key, path)
    ledger_id = secrets.token_hex(16)
    sealed = sealing.seal_labels(owner, secret.content(), ledger_id.encode())
    id_text = None if names is None else json.dumps(names).encode()
    header = {
        "kind": "ledger",
        "schema": 1,
        "hardpan": hardpan.__version__,
        "id": ledger_id,
        "name": name,
        "examples": len(codes),
        "ladder_examples": scored,
        "holdout_examples": int(secret.held_out.sum()),
        "classes": class_names,
        "step": str(exact),
        "delta": delta,
        "submissions": submissions,
        "unsafe": unsafe,
        "commitment": secret.commitment(),
        "sealed_sha256": chain.chain_hash(sealed),
        "ids_sha256": None if id_text is None else chain.chain_hash(id_text),
        "public_key": sealing.public_owner_key(owner),
    }
    try:
        _write_ledger_folder(path, header, sealed, id_text, owner)
    except BaseException:
        if written is not None and not path.exists():
            written.unlink(missing_ok=True)
        raise
    return Ledger(path, owner)


def open(folder: str | os.PathLike[str], key: Key = None) -> Ledger:
    """Open a ledger: with the owner's key (bytes or the key file) to submit, without to look at and verify it."""
    path = as_path("folder", folder)
    chain.read_ledger_header(path)
    if key is not None and not isinstance(key, bytes):
        return Ledger(path, sealing.read_owner_key(as_path("key", key)))
    return Ledger(path, key if key is None else _check_owner_key(key))


class Ledger:
    """A sealed test set; :func:`create` makes one, :func:`open` opens it."""

    def __init__(self, folder: Path, key: bytes | None) -> None:
        self.folder, self._key = folder, key

    def __repr__(self) -> str:
        """The folder."""
        return f"Ledger({str(self.folder)!r})"

    def submit(self, predictions: Any, *, name: str = "") -> LedgerAnswer:
        """Count one submission and answer it by the Ladder; the same predictions again give the recorded answer.

        Args:
            predictions: (N,) classes, or (N, C) scores of which the largest counts, in the ledger's order; or a
                file of them or :class:`hardpan.Predictions` (the mean over seeds at the last epoch), joined by id
                where the ledger has ids.
            name: name of the submission.
        """
        header, _ = chain.read_ledger_header(self.folder)
        codes = encode_submitted_labels(align_submitted_labels(self.folder, header, predictions), header)
        submission = submission_hash(header, codes.astype("<i4").tobytes())
        with self._unlocked() as (_, secret, entries, append):
            earlier = next(
                (e for e in entries if e["kind"] == "submission" and e["submission"] == submission), None
            )
            if earlier is not None:
                return _ledger_answer(header, entries, earlier, repeated=True)
            if any(e["kind"] == "reveal" for e in entries):
                raise InputError("this ledger's labels were revealed; its leaderboard is closed, make a new one")
            _check_ledger_is_not_used_up(header, entries)
            store_pending_submission(self.folder, submission, codes)  # first: a logged one can always be replayed
            used = ~secret.held_out
            step, best = Fraction(header["step"]), _current_rung(entries)
            rung = ladder.climb_ladder(best, int((codes[used] != secret.labels[used]).sum()), int(used.sum()), step)
            payload = {"kind": "submission", "name": name, "submission": submission}
            entry = append({**payload, "rung": rung, "improved": rung != best})
            finish_pending_submissions(self.folder, {submission})
            return _ledger_answer(header, (*entries, entry), entry, repeated=False)

    def status(self) -> LedgerStatus:
        """The public state; needs no key."""
        header, header_hash = chain.read_ledger_header(self.folder)
        log, behind = chain.read_log_and_head(self.folder, header, header_hash)
        counted = [e for e in log.entries if e["kind"] == "submission"]
        improved = [e for e in counted if e["improved"]]
        openings = [e for e in log.entries if e["kind"] == "opening"]
        n, step, delta = header["ladder_examples"], Fraction(header["step"]), header["delta"]
        rung, t = _current_rung(log.entries), max(len(counted), 1)
        return LedgerStatus(
            name=header["name"],
            examples=n,
            holdout_examples=header["holdout_examples"],
            step=float(step),
            delta=delta,
            submissions=len(counted),
            improvements=len(improved),
            best=(improved[-1]["name"] or improved[-1]["submission"][:12]) if improved else "",
            error=float("nan") if rung is None else float(rung * step),
            bound=ladder.leaderboard_bound(n, t, len(improved), step, delta),
            limit=header.get("submissions") or ladder.submission_limit(n, step, delta),
            bound_limit=_planned_ladder_bound(header),
            unsafe=bool(header.get("unsafe", False)),
            openings=len(openings),
            after_opening=sum(bool(openings) and e["number"] > openings[0]["number"] for e in counted),
            interrupted=behind or log.torn > 0,
            revealed=any(e["kind"] == "reveal" for e in log.entries),
            commitment=header["commitment"],
            head=log.entries[-1]["hash"],
            entries=len(log.entries),
        )

    def verify(self, *, heads: Sequence[str] = (), revealed: str | os.PathLike[str] | None = None) -> LedgerCheck:
        """Check the log, the signatures, the stored submissions and the rules of the Ladder.

        With the owner's key, or the file that :meth:`reveal` wrote, every answer is computed again as well.

        Args:
            heads: a head that was published with an earlier answer; it must be in the log.
            revealed: the npz file that ``reveal`` wrote: replay every answer.
        """
        from hardpan.ledger.verification import verify_ledger

        return verify_ledger(self.folder, heads=heads, key=self._key, revealed=revealed)

    def open_holdout(self, *, names: Sequence[str] = (), reason: str = "") -> HoldoutScores:
        """Score submissions on the super hold-out; the log records that it was opened.

        Each interval is Clopper–Pearson at level 1 − δ/k for the k submissions scored, so all k hold together with
        probability 1 − δ, provided that no submission was made after an earlier opening.

        Args:
            names: a submission to score, by name or by the beginning of its sha256; default: all.
            reason: why it is opened, for the log.
        """
        with self._unlocked() as (header, secret, entries, append):
            if header["holdout_examples"] == 0:
                raise InputError("this ledger has no super hold-out; make a ledger with --holdout above 0")
            scored = logged_submissions_by_name([e for e in entries if e["kind"] == "submission"], names)
            before = sum(e["kind"] == "opening" for e in entries)
            errors = {e["submission"]: ledger_holdout_errors(self.folder, secret, e["submission"]) for e in scored}
            append({"kind": "opening", "reason": reason, "errors": errors})
        labels = {e["submission"]: e["name"] or e["submission"][:12] for e in scored}
        if len(set(labels.values())) < len(labels):
            labels = {submission: f"{label} ({submission[:12]})" for submission, label in labels.items()}
        level, method = 1 - header["delta"] / len(scored), "super hold-out, Clopper–Pearson"
        total = header["holdout_examples"]
        return HoldoutScores(
            {labels[name]: share(count, total, level, method=method) for name, count in errors.items()}, before
        )

    def reveal(self, out: str | os.PathLike[str]) -> Path:
        """Publish labels, hold-out and salt, so that anyone can replay every answer; closes the leaderboard."""
        with self._unlocked() as (header, secret, entries, append):
            if not any(e["kind"] == "reveal" for e in entries):
                append({"kind": "reveal"})
            buffer = io.BytesIO()
            salt, classes = np.frombuffer(secret.salt, np.uint8), np.array(header["classes"])
            np.savez(buffer, labels=secret.labels, held_out=secret.held_out, salt=salt, classes=classes)
            write_bytes(Path(out), buffer.getvalue())
        return Path(out)

    @contextlib.contextmanager
    def _unlocked(self) -> Iterator[tuple[dict[str, Any], SecretLabels, tuple[chain.Entry, ...], _Append]]:
        """Header, labels, entries (after completing what a killed process left), and what appends one; locked."""
        if self._key is None:
            raise InputError("is needed here; open the ledger with the owner's key", argument="key")
        header, header_hash = chain.read_ledger_header(self.folder)
        secret = unlock_labels(self.folder, header, self._key)
        with locked(self.folder / ".lock"):
            entries = chain.mend_log(self.folder, header, header_hash, self._key)
            finish_pending_submissions(self.folder, {e["submission"] for e in entries if e["kind"] == "submission"})
            append = functools.partial(chain.append_log_entry, self.folder, header_hash, entries, self._key)
            yield header, secret, entries, append


def ledger_holdout_errors(folder: Path, secret: SecretLabels, submission: str) -> int:
    """Count a submission's errors on the super hold-out."""
    codes = read_submission(folder, submission)
    return int((codes[secret.held_out] != secret.labels[secret.held_out]).sum())


def _check_owner_key(key: bytes) -> bytes:
    if len(key) != sealing.KEY_BYTES:
        raise InputError(
            f"must be {sealing.KEY_BYTES} bytes, or the path of a key file; got {len(key)} bytes", argument="key"
        )
    return key


def _new_owner_key(key: Key, folder: Path) -> tuple[bytes, Path | None]:
    """The owner's key and, where a fresh one was written, its file."""
    if isinstance(key, bytes):
        return _check_owner_key(key), None
    if key is None:
        raise InputError("key is missing; give a path for the owner's new key")
    owner, path = secrets.token_bytes(sealing.KEY_BYTES), as_path("key", key)
    if path.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise InputError(
            f"must not be the path of the ledger's folder or of one above it; got {path}", argument="key"
        )
    sealing.write_owner_key(path, owner)  # before the ledger: a ledger whose key was lost would be of no use
    return owner, path


def _write_ledger_folder(
    folder: Path, header: dict[str, Any], sealed: bytes, id_text: bytes | None, key: bytes
) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name[:200]}.{secrets.token_hex(6)}")
    temporary.mkdir()  # by the umask, as its files: mkdtemp would hide the public log from others
    try:
        content = chain.chain_json(header) + b"\n"
        (temporary / chain.SUBMISSIONS).mkdir()
        write_bytes(temporary / chain.HEADER, content)
        write_bytes(temporary / sealing.SEALED, sealed)
        if id_text is not None:
            write_bytes(temporary / IDS, id_text)
        chain.append_log_entry(temporary, chain.chain_hash(content), (), key, {"kind": "init"})
        os.rename(temporary, folder)
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _check_ledger_is_not_used_up(header: dict[str, Any], entries: Sequence[chain.Entry]) -> None:
    """Refuse a submission with which the stated bound would exceed that of the planned submissions, or reach 1."""
    counted = [e for e in entries if e["kind"] == "submission"]
    t, improvements = len(counted) + 1, sum(e["improved"] for e in counted) + 1
    n, most = header["ladder_examples"], _planned_ladder_bound(header)
    bound = ladder.leaderboard_bound(n, t, improvements, header["step"], header["delta"])
    if not header.get("unsafe", False) and (bound > most or bound >= 1):
        raise InputError(
            f"submission {t:,} could raise the bound on the leaderboard's error to {bound:.3g}, above the planned "
            f"{most:.3g}; the test set of {n} examples is used up, make a new ledger with new labels"
        )


def _planned_ladder_bound(header: dict[str, Any]) -> float:
    """The worst-case bound of the planned submissions; 1 for a ledger of an earlier version, which has no plan."""
    planned = header.get("submissions")
    if planned is None:
        return 1.0
    return ladder.leaderboard_bound(header["ladder_examples"], planned, planned, header["step"], header["delta"])


def _current_rung(entries: Sequence[chain.Entry]) -> int | None:
    return next((int(e["rung"]) for e in reversed(entries) if e["kind"] == "submission"), None)


def _ledger_answer(
    header: dict[str, Any], entries: Sequence[chain.Entry], own: chain.Entry, *, repeated: bool
) -> LedgerAnswer:
    until = [e for e in entries[: own["number"] + 1] if e["kind"] == "submission"]
    improvements = sum(e["improved"] for e in until)
    n, step, delta = header["ladder_examples"], header["step"], header["delta"]
    return LedgerAnswer(
        error=float(own["rung"] * Fraction(step)),
        improved=own["improved"],
        bound=ladder.leaderboard_bound(n, len(until), improvements, step, delta),
        delta=delta,
        submissions=sum(e["kind"] == "submission" for e in entries),
        submission=own["submission"],
        name=own["name"],
        repeated=repeated,
        head=entries[-1]["hash"],
        entries=len(entries),
    )
