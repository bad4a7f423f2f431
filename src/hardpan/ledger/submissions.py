"""The submissions to a ledger: predictions as class numbers in the ledger's order, stored by their hash."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.files import DAMAGED, sync_folder, write_bytes
from hardpan.ledger import chain
from hardpan.ledger.labels import LabelFile, as_ledger_labels, read_label_file
from hardpan.predictions.predictions import Predictions

IDS = "ids.json"
PENDING = "pending-"


def align_submitted_labels(folder: Path, header: dict[str, Any], predictions: Any) -> NDArray[Any]:
    """Predictions in the ledger's order: an array as it is, others joined by id where the ledger has ids."""
    if isinstance(predictions, Predictions):
        if predictions.n_classes != len(header["classes"]):
            raise InputError(
                f"predictions have {predictions.n_classes} classes, this ledger {len(header['classes'])}; record "
                "probabilities of the same classes"
            )
        best = np.array(header["classes"])[predictions.final_probs().argmax(axis=1)]
        answers = LabelFile(best, tuple(predictions.ids.tolist()) if predictions.has_ids else None)
    elif isinstance(predictions, (str, os.PathLike)):
        answers = read_label_file(Path(predictions), "answer", "label")
    else:
        try:
            return np.asarray(predictions)
        except ValueError as error:
            raise InputError(f"must be an array or a file ({error})", argument="predictions") from error
    if header["ids_sha256"] is None:
        return answers.values
    content = chain.read_ledger_file(folder / IDS)
    if chain.chain_hash(content) != header["ids_sha256"]:
        raise InputError(f"{folder / IDS} does not match its hash; the ids were changed")
    return answers.in_order_of(json.loads(content))


def encode_submitted_labels(predictions: NDArray[Any], header: dict[str, Any]) -> NDArray[np.int32]:
    """Give predictions as class numbers of this ledger, and refuse other shapes and classes."""
    values, classes = as_ledger_labels(predictions, "predictions"), header["classes"]
    if len(values) != header["examples"]:
        raise InputError(
            f"must be {header['examples']} classes; got {len(values)}; predict every example",
            argument="predictions",
        )
    if isinstance(classes[0], str):
        values = values.astype(np.str_)
    elif values.dtype.kind == "U":
        raise InputError(
            f"must be class numbers of this ledger; got text such as {str(values[0])!r}", argument="predictions"
        )
    known = np.array(classes)
    codes = np.searchsorted(known, values)
    wrong = known[np.minimum(codes, len(known) - 1)] != values
    if wrong.any():
        raise InputError(
            f"predictions hold class {values[wrong][0]!s}, which is none of this ledger's {len(known)} classes"
        )
    return codes.astype(np.int32)


def submission_hash(header: dict[str, Any], content: bytes) -> str:
    """The name of a submission: sha256 over the ledger's id and the predictions."""
    return chain.chain_hash(f"submission {header['id']} ".encode() + content)


def read_submission(folder: Path, submission: str) -> NDArray[np.int32]:
    """Read the stored predictions of a counted submission."""
    path = folder / chain.SUBMISSIONS / f"{submission}.npy"
    if not path.exists():  # interrupted between its entry and its final name
        path = path.with_name(PENDING + path.name)
    try:
        stored: NDArray[Any] = np.load(path, allow_pickle=False)
        return stored.astype(np.int32)
    except DAMAGED as error:
        raise InputError(
            f"submission {submission[:12]} cannot be read ({error}); restore it from a copy"
        ) from error


def store_pending_submission(folder: Path, submission: str, codes: NDArray[np.int32]) -> None:
    """Put predictions on disk before their entry is written; :func:`finish_pending_submissions` names them."""
    buffer = io.BytesIO()
    np.save(buffer, codes, allow_pickle=False)
    write_bytes(folder / chain.SUBMISSIONS / f"{PENDING}{submission}.npy", buffer.getvalue())


def finish_pending_submissions(folder: Path, logged: set[str]) -> None:
    """Name the predictions whose entry is in the log, and remove those whose entry was never written."""
    for path in (folder / chain.SUBMISSIONS).glob(f"{PENDING}*.npy"):
        submission = path.stem.removeprefix(PENDING)
        if submission in logged:
            os.replace(path, path.with_name(f"{submission}.npy"))
        else:
            path.unlink()
        sync_folder(path.parent)


def stored_submissions(folder: Path) -> set[str]:
    """The submissions whose predictions have their final name: an entry of the log was written before each."""
    return {path.stem for path in (folder / chain.SUBMISSIONS).glob("*.npy") if not path.stem.startswith(PENDING)}


def logged_submissions_by_name(counted: list[chain.Entry], names: Sequence[str]) -> list[chain.Entry]:
    """The entries of the submissions with these names or beginnings of their sha256; all without names."""
    if not counted:
        raise InputError("there are no submissions to score; submit first")
    if not names:
        return counted
    scored: list[chain.Entry] = []
    for name in names:
        same = [e for e in counted if e["name"] == name or (len(name) >= 8 and e["submission"].startswith(name))]
        if not same:
            raise InputError(f"no submission is called {name!r}; see hardpan LEDGER")
        scored += [e for e in same if e not in scored]
    return scored
