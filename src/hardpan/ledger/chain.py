"""The append-only log: one signed JSON line per entry, each naming the hash of the one before.

An entry counts when its whole line is on disk; the head file follows, and only then is the answer given. So a
process killed at any moment leaves one of three states, and the next one under the lock mends each: an unfinished
last line (never answered: cut off), a whole line without its head (the head is written), or nothing.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardpan.errors import InputError
from hardpan.files import write_bytes
from hardpan.ledger import sealing

HEADER, LOG, HEAD, SUBMISSIONS = "ledger.json", "log.jsonl", "head.json", "submissions"
Entry = dict[str, Any]
_FIELDS = {
    *("id", "name", "examples", "ladder_examples", "holdout_examples", "classes", "step", "delta"),
    *("commitment", "sealed_sha256", "ids_sha256", "public_key"),
}


@dataclass(frozen=True, slots=True)
class LedgerLog:
    """What the log file holds: whole entries, and the bytes of an unfinished last line."""

    entries: tuple[Entry, ...]
    torn: int


def chain_json(value: Mapping[str, Any]) -> bytes:
    """The one way to write a mapping: sorted keys, no spaces, ASCII.

    Example:
        >>> chain_json({"b": 1, "a": "é"})
        b'{"a":"\\\\u00e9","b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def chain_hash(content: bytes) -> str:
    """Sha256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def read_ledger_file(path: Path) -> bytes:
    """The content of a file of a ledger."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); restore it from a copy") from error


def read_ledger_header(folder: Path) -> tuple[dict[str, Any], str]:
    """Give the ledger's public description and its hash, with which the chain begins."""
    try:
        content = (folder / HEADER).read_bytes()
        header = json.loads(content)
    except OSError as error:
        raise InputError(
            f"{folder} is not a ledger ({error.strerror}); make one with: hardpan ledger init"
        ) from error
    except ValueError as error:
        raise InputError(f"{folder / HEADER} is damaged ({error}); restore it from a copy") from error
    known = isinstance(header, dict) and header.get("kind") == "ledger" and header.get("schema") == 1
    if not known or not set(header) >= _FIELDS:
        raise InputError(
            f"{folder / HEADER} is not the description of a ledger of schema 1; restore it from a copy"
        )
    return header, chain_hash(content)


def read_log(folder: Path, header_hash: str) -> LedgerLog:
    """Read the log and check every link; :class:`InputError` names the first line that is not as written."""
    lines = read_ledger_file(folder / LOG).split(b"\n")
    torn = lines.pop()
    entries: list[Entry] = []
    previous = header_hash
    for number, line in enumerate(lines):
        entry = _parse_log_entry(line, number, previous)
        entries.append(entry)
        previous = entry["hash"]
    return LedgerLog(tuple(entries), len(torn))


def _parse_log_entry(line: bytes, number: int, previous: str) -> Entry:
    where = f"log line {number + 1}"
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict):
            raise TypeError
        body = {name: entry[name] for name in entry if name not in ("hash", "signature")}
        as_written = chain_json(entry) == line
        signature = entry["signature"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{where} is not an entry; the log was changed") from error
    if not as_written or entry["hash"] != chain_hash(chain_json(body)) or not isinstance(signature, str):
        raise InputError(f"{where} does not match its hash; the log was changed")
    if entry.get("number") != number or entry.get("previous") != previous:
        raise InputError(f"{where} does not follow the line before it; entries were removed, added or moved")
    return dict(entry)


def read_log_head(folder: Path) -> dict[str, Any]:
    """Give the head as last published: how many entries there are and the hash of the last."""
    content = read_ledger_file(folder / HEAD)
    try:
        head = json.loads(content)
        types = type(head["entries"]), type(head["hash"])
        if chain_json(head) + b"\n" != content or types != (int, str):
            raise ValueError
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / HEAD} is damaged; the head was changed") from error
    return dict(head)


def chain_head_message(header_hash: str, entries: int, last: str) -> bytes:
    """What the owner signs in a head."""
    return f"head {header_hash} {entries} {last}".encode()


def chain_is_ahead_of_head(
    head: Mapping[str, Any], log: LedgerLog, header: Mapping[str, Any], header_hash: str
) -> bool:
    """Compare the head with the log; True when the log is one interrupted entry ahead of it."""
    count, last = head["entries"], head["hash"]
    if not sealing.is_signed_by(
        header["public_key"], chain_head_message(header_hash, count, last), str(head.get("signature"))
    ):
        raise InputError("head is not signed by this ledger's owner; the head was changed")
    if not 1 <= count <= len(log.entries):
        raise InputError(f"head counts {count} entries and the log holds {len(log.entries)}; entries were removed")
    if log.entries[count - 1]["hash"] != last:
        raise InputError(f"head names another entry {count} than the log holds; the log was rewritten")
    if len(log.entries) > count + 1:
        raise InputError(
            f"log holds {len(log.entries) - count} entries beyond the head; it was extended from outside"
        )
    return len(log.entries) == int(count) + 1


def read_log_and_head(folder: Path, header: Mapping[str, Any], header_hash: str) -> tuple[LedgerLog, bool]:
    """Read log and head as they belong together, without the lock; also whether the last entry was interrupted."""
    while True:
        head = read_log_head(folder)
        log = read_log(folder, header_hash)
        if read_log_head(folder) == head:  # otherwise somebody submitted in between
            return log, chain_is_ahead_of_head(head, log, header, header_hash)


def mend_log(folder: Path, header: Mapping[str, Any], header_hash: str, key: bytes) -> tuple[Entry, ...]:
    """Finish what a killed process left (only under the lock) and give the entries; refuse a changed log."""
    log = read_log(folder, header_hash)
    behind = chain_is_ahead_of_head(read_log_head(folder), log, header, header_hash)
    for entry in log.entries[-1:]:  # only the last can be one that no head vouches for yet
        if not chain_entry_is_signed(entry, header):
            raise InputError(
                f"log line {entry['number'] + 1} is not signed by this ledger's owner; it was added from outside"
            )
    if log.torn:
        path = folder / LOG
        with path.open("r+b") as stream:
            stream.truncate(path.stat().st_size - log.torn)
            os.fsync(stream.fileno())
    if behind:
        write_log_head(folder, header_hash, log.entries[-1], key)
    return log.entries


def chain_entry_is_signed(entry: Entry, header: Mapping[str, Any]) -> bool:
    """Tell whether the owner signed the entry."""
    return sealing.is_signed_by(header["public_key"], entry["hash"].encode(), entry["signature"])


def make_log_entry(number: int, previous: str, payload: Mapping[str, Any], key: bytes) -> Entry:
    """Link and sign one entry."""
    body = {**payload, "number": number, "previous": previous}
    own = chain_hash(chain_json(body))
    return {**body, "hash": own, "signature": sealing.sign_by_owner_key(key, own.encode())}


def append_log_entry(
    folder: Path, header_hash: str, entries: Sequence[Entry], key: bytes, payload: Mapping[str, Any]
) -> Entry:
    """Put one more entry on disk, then the head; on return both survive a power cut."""
    time = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    previous = entries[-1]["hash"] if entries else header_hash
    entry = make_log_entry(len(entries), previous, {"time": time, **payload}, key)
    with (folder / LOG).open("ab") as stream:
        stream.write(chain_json(entry) + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
    write_log_head(folder, header_hash, entry, key)
    return entry


def write_log_head(folder: Path, header_hash: str, last: Entry, key: bytes) -> None:
    """Write the signed head in one step."""
    count = last["number"] + 1
    signature = sealing.sign_by_owner_key(key, chain_head_message(header_hash, count, last["hash"]))
    write_bytes(folder / HEAD, chain_json({"entries": count, "hash": last["hash"], "signature": signature}) + b"\n")
