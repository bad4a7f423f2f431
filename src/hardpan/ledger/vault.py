"""What is sealed and what is submitted: labels with their salt, predictions by their hash."""

from __future__ import annotations

import io
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError
from hardpan.files import write_bytes
from hardpan.ledger import chain, sealing
from hardpan.ledger.inputs import UNREADABLE, as_classes, order_by_ids, read_answers

IDS = "ids.json"


@dataclass(frozen=True, slots=True, eq=False)
class Secret:
    """What the seal hides: labels as class numbers, which examples are held out, and the commitment's salt."""

    labels: NDArray[np.int32]
    held_out: NDArray[np.bool_]
    salt: bytes

    def content(self) -> bytes:
        """The bytes that are committed to and sealed."""
        return self.salt + self.labels.astype("<i4").tobytes() + self.held_out.astype(np.uint8).tobytes()

    @classmethod
    def parse(cls, content: bytes, examples: int) -> Secret:
        """Undo :meth:`content`."""
        if len(content) != 32 + 5 * examples:
            raise InputError("sealed labels have the wrong length; the file belongs to another ledger")
        labels = np.frombuffer(content, "<i4", examples, 32).astype(np.int32)
        return cls(labels, np.frombuffer(content, np.uint8, examples, 32 + 4 * examples).astype(bool), content[:32])


def encode_labels(labels: NDArray[Any], classes: int | None) -> tuple[NDArray[np.int32], list[Any]]:
    """Give labels as class numbers, and the classes in order."""
    values = as_classes(labels, "labels")
    if values.dtype.kind == "U":
        names, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int32), names.tolist()
    if values.min() < 0:
        raise InputError(f"labels must be class numbers from 0; got {values.min()}")
    count = int(values.max()) + 1 if classes is None else classes
    if values.max() >= count:
        raise InputError(f"labels go up to {values.max()}, beyond the {count} classes given; raise --classes")
    if count > 1_000_000:
        raise InputError(f"labels go up to {values.max()}; class numbers must be below 1,000,000: are these ids?")
    return values.astype(np.int32), list(range(count))


def draw_secret(codes: NDArray[np.int32], held: int) -> Secret:
    """Choose the super hold-out and the salt."""
    if held >= len(codes):
        raise InputError(
            f"holdout leaves no example for the leaderboard of {len(codes)}; give more labels or a smaller fraction"
        )
    # The seed of a generator could be guessed from its draws; the system's randomness cannot.
    chosen = np.argsort(np.frombuffer(secrets.token_bytes(8 * len(codes)), np.uint64), kind="stable")[:held]
    held_out = np.zeros(len(codes), dtype=bool)
    held_out[chosen] = True
    return Secret(codes, held_out, secrets.token_bytes(32))


def read_revealed(path: Path, header: dict[str, Any]) -> Secret:
    """Read what :func:`reveal` wrote and check it against the published commitment."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            secret = Secret(
                stored["labels"].astype(np.int32), stored["held_out"].astype(bool), stored["salt"].tobytes()
            )
    except UNREADABLE as error:
        raise InputError(f"{path}: cannot be read ({error}); give the file that ledger reveal wrote") from error
    if chain.digest(secret.content()) != header["commitment"]:
        raise InputError(
            f"{path}: does not match the published commitment; these are not the labels that were sealed"
        )
    return secret


def unlock(folder: Path, header: dict[str, Any], key: bytes) -> Secret:
    """Open the seal, and check what is inside against the published commitment and the owner's key."""
    try:
        sealed = (folder / chain.SEALED).read_bytes()
    except OSError as error:
        raise InputError(
            f"{folder / chain.SEALED} cannot be read ({error.strerror}); restore it from a copy"
        ) from error
    content = sealing.unseal(key, sealed, header["id"].encode())
    if chain.digest(content) != header["commitment"] or sealing.public_key(key) != header["public_key"]:
        raise InputError("sealed labels do not match the published commitment; the ledger was changed")
    return Secret.parse(content, header["examples"])


def encode_predictions(predictions: NDArray[Any], header: dict[str, Any]) -> NDArray[np.int32]:
    """Give predictions as class numbers of this ledger, and refuse other shapes and classes."""
    values, classes = as_classes(predictions, "predictions"), header["classes"]
    if len(values) != header["examples"]:
        raise InputError(
            f"predictions must be {header['examples']} classes; got {len(values)}; predict every example"
        )
    if isinstance(classes[0], str):
        values = values.astype(np.str_)
    elif values.dtype.kind == "U":
        raise InputError(f"predictions must be class numbers of this ledger; got text such as {values[0]!r}")
    known = np.array(classes)
    place = np.searchsorted(known, values)
    wrong = known[np.minimum(place, len(known) - 1)] != values
    if wrong.any():
        raise InputError(
            f"predictions hold class {values[wrong][0]!s}, which is none of this ledger's {len(known)} classes"
        )
    return place.astype(np.int32)


def read_predictions(folder: Path, path: Path) -> NDArray[Any]:
    """Read a file of predictions in the order of the ledger's examples, joined by id where the ledger has ids."""
    header, _ = chain.read_header(folder)
    answers = read_answers(path, ("prediction", "predictions", "label", "labels"))
    if header["ids_sha256"] is None:
        return answers.values
    try:
        content = (folder / IDS).read_bytes()
    except OSError as error:
        raise InputError(f"{folder / IDS} cannot be read ({error.strerror}); restore it from a copy") from error
    if chain.digest(content) != header["ids_sha256"]:
        raise InputError(f"{folder / IDS} does not match its hash; the ids were changed")
    return order_by_ids(answers, tuple(json.loads(content)))


def submission_hash(header: dict[str, Any], content: bytes) -> str:
    """The name of a submission: sha256 over the ledger's id and the predictions."""
    return chain.digest(f"submission {header['id']} ".encode() + content)


def read_submission(folder: Path, submission: str) -> NDArray[np.int32]:
    """Read the stored predictions of a counted submission."""
    try:
        stored: NDArray[Any] = np.load(folder / chain.SUBMISSIONS / f"{submission}.npy", allow_pickle=False)
        return stored.astype(np.int32)
    except UNREADABLE as error:
        raise InputError(
            f"submission {submission[:12]} cannot be read ({error}); restore it from a copy"
        ) from error


def store_submission(folder: Path, submission: str, codes: NDArray[np.int32]) -> None:
    """Put a submission's predictions on disk under their name, in one step."""
    buffer = io.BytesIO()
    np.save(buffer, codes, allow_pickle=False)
    write_bytes(folder / chain.SUBMISSIONS / f"{submission}.npy", buffer.getvalue())
    chain.sync_folder(folder / chain.SUBMISSIONS)
