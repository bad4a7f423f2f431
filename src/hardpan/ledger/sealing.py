"""The owner's key: sealing the labels, signing the log. The only module that imports ``cryptography``."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError, MissingExtra
from hardpan.files import DAMAGED, sync_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_BYTES = 32
SEALED = "labels.sealed"
KEY_VARIABLE = "HARDPAN_LEDGER_KEY"


def write_owner_key(path: Path, key: bytes) -> None:
    """Write the key in hexadecimal to a new file that only its owner can read (mode 0600)."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError as error:
        raise InputError(
            f"key file {path} exists already; give another path, an old key is never overwritten"
        ) from error
    except OSError as error:
        raise InputError(f"key file {path} cannot be written ({error.strerror}); give another path") from error
    try:
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(key.hex() + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        sync_folder(path.absolute().parent)
    except OSError as error:
        path.unlink(missing_ok=True)  # half a key would be in the way of the next one
        raise InputError(f"key file {path} cannot be written ({error.strerror}); give another path") from error


def read_owner_key(path: Path | None) -> bytes:
    """Read the owner's key from a file of mode 0600, or from the environment variable HARDPAN_LEDGER_KEY."""
    if path is None:
        text, origin = os.environ.get(KEY_VARIABLE, ""), f"environment variable {KEY_VARIABLE}"
        if not text:
            raise InputError(f"no owner's key: give --key FILE or set {KEY_VARIABLE}")
    else:
        origin = f"key file {path}"
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            text = path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise InputError(f"{origin} cannot be read ({reason}); give the file that ledger init wrote") from error
        if os.name == "posix" and mode & 0o077:
            raise InputError(f"{origin} can be read by others (mode {mode:04o}); run: chmod 600 {path}")
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InputError(
            f"{origin} does not hold {2 * KEY_BYTES} hexadecimal digits; give the key that ledger init wrote"
        )
    return key


def seal_labels(key: bytes, content: bytes, context: bytes) -> bytes:
    """Encrypt and authenticate (ChaCha20-Poly1305); ``context`` ties the result to one ledger."""
    _require_cryptography()
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    nonce = secrets.token_bytes(12)
    return nonce + ChaCha20Poly1305(_derive_sealing_key(key, b"labels")).encrypt(nonce, content, context)


def unseal_labels(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """Undo :func:`seal_labels`; a wrong key or a changed file is refused."""
    _require_cryptography()
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(_derive_sealing_key(key, b"labels")).decrypt(sealed[:12], sealed[12:], context)
    except (InvalidTag, ValueError) as error:
        raise InputError(
            "sealed labels do not open with this key; give the key of this ledger, or the file was changed"
        ) from error


def public_owner_key(key: bytes) -> str:
    """Give the public half of the key that signs the log, in hexadecimal."""
    return _signing_key(key).public_key().public_bytes_raw().hex()


def sign_by_owner_key(key: bytes, message: bytes) -> str:
    """Sign with Ed25519; the signature in hexadecimal."""
    return _signing_key(key).sign(message).hex()


def is_signed_by(public: str, message: bytes, signature: str) -> bool:
    """Tell whether the owner of ``public`` signed the message; a signature has one spelling only."""
    _require_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        content = bytes.fromhex(signature)
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(content, message)
    except (InvalidSignature, ValueError):
        return False
    # fromhex takes spaces and capitals, too: they would be changes of the log that nobody sees.
    return content.hex() == signature


def _signing_key(key: bytes) -> Ed25519PrivateKey:
    _require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_derive_sealing_key(key, b"log"))


def _derive_sealing_key(key: bytes, purpose: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"hardpan ledger " + purpose).derive(key)


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MissingExtra("cryptography", "ledger") from error


@dataclass(frozen=True, slots=True, eq=False)
class SecretLabels:
    """What the seal hides: labels as class numbers, which examples are held out, and the commitment's salt."""

    labels: NDArray[np.int32]
    held_out: NDArray[np.bool_]
    salt: bytes

    def content(self) -> bytes:
        """The bytes that are committed to and sealed."""
        return self.salt + self.labels.astype("<i4").tobytes() + self.held_out.astype(np.uint8).tobytes()

    def commitment(self) -> str:
        """The hash that is published."""
        return hashlib.sha256(self.content()).hexdigest()

    @classmethod
    def parse(cls, content: bytes, examples: int) -> SecretLabels:
        """Undo :meth:`content`."""
        if len(content) != 32 + 5 * examples:
            raise InputError("sealed labels have the wrong length; the file belongs to another ledger")
        labels = np.frombuffer(content, "<i4", examples, 32).astype(np.int32)
        return cls(labels, np.frombuffer(content, np.uint8, examples, 32 + 4 * examples).astype(bool), content[:32])


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
    if secret.commitment() != header["commitment"]:
        raise InputError(
            f"{path}: does not match the published commitment; these are not the labels that were sealed"
        )
    return secret


def unlock_labels(folder: Path, header: dict[str, Any], key: bytes) -> SecretLabels:
    """Open the seal, and check what is inside against the published commitment and the owner's key."""
    try:
        sealed = (folder / SEALED).read_bytes()
    except OSError as error:
        raise InputError(f"{folder / SEALED} cannot be read ({error.strerror}); restore it from a copy") from error
    secret = SecretLabels.parse(unseal_labels(key, sealed, header["id"].encode()), header["examples"])
    if secret.commitment() != header["commitment"] or public_owner_key(key) != header["public_key"]:
        raise InputError("sealed labels do not match the published commitment; the ledger was changed")
    return secret
