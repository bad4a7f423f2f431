"""Labels and predictions: read as people have them, encoded as class numbers, sealed, and stored by their hash."""

from __future__ import annotations

import io
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError, few
from hardpan.files import DAMAGED, read_json, read_npy, read_npz, sync_folder, write_bytes
from hardpan.ledger import chain, sealing
from hardpan.predictions.predictions import Predictions
from hardpan.tables import find_columns, read_columns

IDS = "ids.json"
PENDING = "pending-"


@dataclass(frozen=True, slots=True, eq=False)
class LabelFile:
    """One class for each example, and the examples' ids where the file names them."""

    values: NDArray[Any]
    ids: tuple[str, ...] | None = None


def read_label_file(path: Path, *roles: str) -> LabelFile:
    """Read one class per example from npy, npz, a table (perhaps with ids) or JSON (a list, or ids to classes).

    Args:
        path: the file; its ending says the format.
        roles: of the column or array of classes (:data:`hardpan.tables.ROLES`); the first that is there is taken.
    """
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return LabelFile(read_npy(path))
    if suffix == ".json":
        data = read_json(path)
        values = list(data.values()) if isinstance(data, dict) else data
        if not isinstance(values, list) or any(isinstance(item, (list, dict)) for item in values):
            raise InputError(f"{path}: must be a list of classes, or an object with ids and classes")
        return LabelFile(_labels_as_numbers_or_text(values), tuple(data) if isinstance(data, dict) else None)
    columns = read_npz(path) if suffix == ".npz" else read_columns(path, text=True)
    usual = {"label": "y_test"} if "label" in roles and "y_test" in columns else {}
    names = find_columns(list(columns), ("id", *roles), usual, where=str(path))
    name = next((names[role] for role in roles if role in names), None)
    if name is None and len(columns) == 1:
        name = next(iter(columns))
    if name is None:
        raise InputError(f"{path}: no column or array of {' or '.join(roles)}; it has {few(columns)}")
    values = columns[name]
    if isinstance(values, list):
        if "" in values:
            raise InputError(f"{path}: column {name} has an empty cell; give every example a class")
        values = _labels_as_numbers_or_text(values)
    return LabelFile(values, tuple(str(item) for item in columns[names["id"]]) if "id" in names else None)


def as_class_labels(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Give one class per example as int64 or text; a table of scores per class becomes its largest column."""
    values = np.asarray(values)
    if values.ndim == 2 and values.dtype.kind == "f" and values.shape[1] > 1:
        if not np.isfinite(values).all():
            raise InputError("must be finite; got NaN or infinity; replace them", argument=what)
        values = values.argmax(axis=1)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"must hold one class per example; got shape {values.shape}", argument=what)
    if values.dtype.kind == "f" and (np.abs(values) < 2**53).all() and (values == np.round(values)).all():
        values = values.astype(np.int64)
    if values.dtype.kind == "S":
        values = values.astype(np.str_)
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    if values.dtype.kind == "U":
        return values
    raise InputError(
        f"must be whole numbers or text; got {values.dtype}; give class numbers or names", argument=what
    )


def order_labels_by_ids(answers: LabelFile, ids: tuple[str, ...]) -> NDArray[Any]:
    """Put answers that name their examples into the ledger's order."""
    if answers.ids is None:
        raise InputError(
            "must name their examples, as this ledger does; give a CSV with columns id,prediction",
            argument="predictions",
        )
    row_of = {name: row for row, name in enumerate(answers.ids)}
    different = sorted(row_of.keys() ^ set(ids))
    if different or len(row_of) < len(answers.ids):
        reason = f"{different[0]!r} is missing or unknown" if different else "an id occurs twice"
        raise InputError(f"must name each of the {len(ids)} examples once; {reason}", argument="predictions")
    return answers.values[[row_of[name] for name in ids]]


def _labels_as_numbers_or_text(values: list[Any]) -> NDArray[Any]:
    if all(isinstance(value, (int, float)) for value in values):  # JSON; as_class_labels refuses what is not whole
        return np.array(values)
    try:
        return np.array([int(value) for value in values], dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        return np.array([str(value) for value in values], dtype=np.str_)


@dataclass(frozen=True, slots=True, eq=False)
class SecretLabels:
    """What the seal hides: labels as class numbers, which examples are held out, and the commitment's salt."""

    labels: NDArray[np.int32]
    held_out: NDArray[np.bool_]
    salt: bytes

    def content(self) -> bytes:
        """The bytes that are committed to and sealed."""
        return self.salt + self.labels.astype("<i4").tobytes() + self.held_out.astype(np.uint8).tobytes()

    @classmethod
    def parse(cls, content: bytes, examples: int) -> SecretLabels:
        """Undo :meth:`content`."""
        if len(content) != 32 + 5 * examples:
            raise InputError("sealed labels have the wrong length; the file belongs to another ledger")
        labels = np.frombuffer(content, "<i4", examples, 32).astype(np.int32)
        return cls(labels, np.frombuffer(content, np.uint8, examples, 32 + 4 * examples).astype(bool), content[:32])


def encode_labels(labels: NDArray[Any], classes: int | None) -> tuple[NDArray[np.int32], list[Any]]:
    """Give labels as class numbers, and the classes in order."""
    values = as_class_labels(labels, "labels")
    if values.dtype.kind == "U":
        names, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int32), names.tolist()
    if values.min() < 0:
        raise InputError(f"must be class numbers from 0; got {values.min()}", argument="labels")
    count = int(values.max()) + 1 if classes is None else classes
    if values.max() >= count:
        raise InputError(f"labels go up to {values.max()}, beyond the {count} classes given; raise --classes")
    if count > 1_000_000:
        raise InputError(f"labels go up to {values.max()}; class numbers must be below 1,000,000: are these ids?")
    return values.astype(np.int32), list(range(count))


def draw_secret_labels(codes: NDArray[np.int32], size: int) -> SecretLabels:
    """Choose the super hold-out and the salt."""
    if size >= len(codes):
        raise InputError(
            f"holdout leaves no example for the leaderboard of {len(codes)}; give more labels or a smaller fraction"
        )
    # The seed of a generator could be guessed from its draws; the system's randomness cannot.
    rows = np.argsort(np.frombuffer(secrets.token_bytes(8 * len(codes)), np.uint64), kind="stable")[:size]
    held_out = np.zeros(len(codes), dtype=bool)
    held_out[rows] = True
    return SecretLabels(codes, held_out, secrets.token_bytes(32))


def read_revealed_labels(path: Path, header: dict[str, Any]) -> SecretLabels:
    """Read what :func:`reveal` wrote and check it against the published commitment."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            secret = SecretLabels(
                stored["labels"].astype(np.int32), stored["held_out"].astype(bool), stored["salt"].tobytes()
            )
    except DAMAGED as error:
        raise InputError(f"{path}: cannot be read ({error}); give the file that ledger reveal wrote") from error
    if chain.chain_hash(secret.content()) != header["commitment"]:
        raise InputError(
            f"{path}: does not match the published commitment; these are not the labels that were sealed"
        )
    return secret


def unlock_labels(folder: Path, header: dict[str, Any], key: bytes) -> SecretLabels:
    """Open the seal, and check what is inside against the published commitment and the owner's key."""
    try:
        sealed = (folder / chain.SEALED).read_bytes()
    except OSError as error:
        raise InputError(
            f"{folder / chain.SEALED} cannot be read ({error.strerror}); restore it from a copy"
        ) from error
    content = sealing.unseal_labels(key, sealed, header["id"].encode())
    if chain.chain_hash(content) != header["commitment"] or sealing.public_owner_key(key) != header["public_key"]:
        raise InputError("sealed labels do not match the published commitment; the ledger was changed")
    return SecretLabels.parse(content, header["examples"])


def encode_submitted_labels(predictions: NDArray[Any], header: dict[str, Any]) -> NDArray[np.int32]:
    """Give predictions as class numbers of this ledger, and refuse other shapes and classes."""
    values, classes = as_class_labels(predictions, "predictions"), header["classes"]
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
    try:
        content = (folder / IDS).read_bytes()
    except OSError as error:
        raise InputError(f"{folder / IDS} cannot be read ({error.strerror}); restore it from a copy") from error
    if chain.chain_hash(content) != header["ids_sha256"]:
        raise InputError(f"{folder / IDS} does not match its hash; the ids were changed")
    return order_labels_by_ids(answers, tuple(json.loads(content)))


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
