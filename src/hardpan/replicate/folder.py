"""A project on disk: settings, examples, database, and the log of the steps that made it.

::

    PROJECT/
      project.json       settings: classes, shape of the originals, sizes of tasks
      local.json         secrets of this machine (mode 0600): signing key, owner's token as a hash, database address
      project.sqlite     votes, decisions, leases, events (unless a PostgreSQL address was given)
      original/x.npy     pixels of the original set (uint8), read in place; x.json: its texts
      pool/ab/ID.png     candidates, one file per content, all of one format; texts: ID.txt
      served/ab/HASH     examples in the form that annotators and participants get
      steps/0001-*.json  what every step read (by hash), its settings and seed, and what came out (by hash)
      set/               the assembled test set
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import hardpan
from hardpan import files, tables
from hardpan.errors import InputError
from hardpan.replicate.examples import Example, Pictures, Texts

if TYPE_CHECKING:
    from hardpan.replicate.database import Database


_ID = re.compile(r"[0-9a-f]{16}")
_HEXADECIMAL = re.compile(r"[0-9a-f]{64}")


@files.record
class TargetClass:
    """A class as annotators see it: name, definition, a page to read, and classes that are near to it."""

    name: str
    definition: str = ""
    link: str = ""
    nearby: tuple[str, ...] = ()


@files.record
class ProjectConfig:
    """Settings of a project, fixed by ``init``.

    Attributes:
        name: what to call the new test set.
        original: name or path of the original data, as given.
        original_hash: sha256 over pixels or texts, labels and ids of the original data.
        classes: the target classes, in the order of their numbers.
        shape: (H, W) or (H, W, 3) of the originals; () if they are texts.
        grid: images per task.
        positives: smallest number of hidden originals of the target class per task.
        negatives: smallest number of hidden originals of a nearby class per task.
        workers_per_image: number of workers per image.
        originals_per_class: smallest number of originals of each class that are annotated.
        lease_seconds: seconds after which an unfinished task is given to another worker.
        seed: of everything random.
    """

    name: str
    original: str
    original_hash: str
    classes: tuple[TargetClass, ...]
    shape: tuple[int, ...]
    grid: int = 48
    positives: int = 3
    negatives: int = 3
    workers_per_image: int = 10
    originals_per_class: int = 20
    lease_seconds: float = 1800.0
    seed: int = 0

    def class_index(self, name: str) -> int:
        """The number of a class by its name, or an InputError that lists the names."""
        for index, item in enumerate(self.classes):
            if item.name == name:
                return index
        raise InputError(f"class {name!r} is not one of the project's: {', '.join(c.name for c in self.classes)}")


@files.record(kind="Step")
class ProjectStep:
    """One step of a project.

    Attributes:
        number: 1, 2, ...
        name: the command's name.
        at: when it ended, in UTC.
        inputs: what was read, and its sha256.
        parameters: settings of the step.
        seed: of its draws.
        outputs: what came out, and its sha256 or count.
        version: of hardpan.
        previous: sha256 of the step before it, "" for the first.
    """

    number: int
    name: str
    at: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    outputs: Mapping[str, Any] = field(default_factory=dict)
    version: str = hardpan.__version__
    previous: str = ""

    def content(self) -> list[Any]:
        """What two steps that did the same have in common, as JSON."""
        item = files.to_json(self)
        return [item[key] for key in ("name", "inputs", "parameters", "seed", "outputs", "version")]


@dataclass(frozen=True)
class ProjectFolder:
    """A project on disk: settings, secrets, examples, database; :class:`hardpan.replicate.Project` is the whole."""

    root: Path
    config: ProjectConfig
    local: dict[str, str]
    clock: Callable[[], float] = field(default=time.time, compare=False)

    @cached_property
    def database(self) -> Database:
        """The database, its tables brought to this version at first use."""
        from hardpan.replicate.database import Database

        address = self.local.get("database_url")
        if not address:
            path = self.root / "project.sqlite"
            path.touch(mode=0o600)  # SQLite gives its journal the same mode
            address = f"sqlite:///{path}"
        database = Database(address)
        database.create_tables()
        return database

    @property
    def classes(self) -> tuple[TargetClass, ...]:
        """The target classes, in the order of their numbers."""
        return self.config.classes

    @property
    def class_names(self) -> list[str]:
        """The names of the target classes, in the order of their numbers."""
        return [item.name for item in self.config.classes]

    @property
    def secret(self) -> bytes:
        """The key that signs invitations, cookies and completion codes."""
        return bytes.fromhex(self.local["secret"])

    def sign(self, purpose: str, text: str) -> str:
        """A signature of ``text`` for one purpose, 43 characters; one for another purpose does not fit."""
        digest = hmac.new(self.secret, f"{purpose}\0{text}".encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def is_signed(self, purpose: str, text: str, signature: str) -> bool:
        """Whether ``signature`` is ours, compared in constant time."""
        return hmac.compare_digest(self.sign(purpose, text).encode(), signature.encode("utf-8", "replace"))

    def is_owner(self, token: str) -> bool:
        """Whether this is the owner's token, which is stored as a hash only."""
        digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        return hmac.compare_digest(digest, self.owner_hash())

    def renew_owner_token(self) -> str:
        """Replace the owner's token and return it; it is stored as a hash only, and the old one becomes invalid."""
        token = secrets.token_urlsafe(24)
        digest = hashlib.sha256(token.encode()).hexdigest()
        # Of the file, not of memory: a database address that was given for one run is not kept.
        write_project_secrets(self.root, read_project_secrets(self.root) | {"owner_hash": digest})
        return token

    def owner_hash(self) -> str:
        """The hash of the owner's token as it is on disk: another process may have renewed it."""
        return read_project_secrets(self.root)["owner_hash"]

    @cached_property
    def kind(self) -> Pictures | Texts:
        """What the examples are."""
        return Pictures(self.config.shape) if self.config.shape else Texts()

    @cached_property
    def originals(self) -> NDArray[Any]:
        """The original set: pixels (N, H, W) or (N, H, W, 3), mapped from disk, or N texts."""
        path = self.root / "original" / self.kind.originals
        try:
            return self.kind.read_originals(path)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{path} cannot be read ({error}); restore it") from error

    def pool_file(self, image_id: str) -> Path:
        """Where a candidate lies; ids are content hashes, and nothing else is looked up."""
        if not _ID.fullmatch(image_id):
            raise InputError(f"{image_id!r} is not the id of a candidate (16 hexadecimal digits)")
        return self.root / "pool" / image_id[:2] / f"{image_id}.{self.kind.ending}"

    def example(self, image_id: str, row: int | None) -> Example:
        """An original by its row, or a candidate: pixels (H, W) or (H, W, 3) in its own size, or a text."""
        if row is not None:
            original = self.originals[row]
            return original if isinstance(original, str) else np.asarray(original)
        return self.kind.read(self.pool_file(image_id))

    def blinded_example(self, image_id: str, row: int | None) -> bytes:
        """An example for people who must not know whether it is a control: one format, and images of one size."""
        try:
            content = self._blinded_file(image_id).read_bytes()
        except FileNotFoundError:
            content = b""
        # A machine that stopped may leave a file without its content: these are not flushed one by one.
        if self.kind.is_sent(content):
            return content
        return self.kind.sent(self.example(image_id, row), blinded=True)

    def keep_blinded(self, image_id: str, example: Example) -> None:
        """Make an example's blinded form now.

        Made on request, the delay would distinguish candidates from controls: a large image takes a second to
        decode and resize, and a small one is a file of its own on a slow disk, while an original is in one array.
        """
        path = self._blinded_file(image_id)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        fresh.write_bytes(self.kind.sent(example, blinded=True))
        fresh.replace(path)

    def _blinded_file(self, image_id: str) -> Path:
        name = hashlib.sha256(image_id.encode()).hexdigest()[:32]  # ids of originals may be any text
        return self.root / "served" / name[:2] / name

    def steps(self, name: str = "") -> list[ProjectStep]:
        """Every step, or those of one name, first to last; refuses a changed log and one with gaps."""
        results = []
        previous = ""
        for number, path in enumerate(self._step_files(), start=1):
            step = files.load(path)
            if not isinstance(step, ProjectStep) or step.number != number or step.previous != previous:
                raise InputError(f"{path}: the log of steps was changed or lacks a step before this one")
            previous = files.file_hash(path)
            results.append(step)
        return [step for step in results if name in ("", step.name)]

    def record_step(
        self,
        name: str,
        *,
        inputs: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        seed: int = 0,
        outputs: Mapping[str, Any] | None = None,
    ) -> ProjectStep:
        """Append a step to the log; where the last step of this name says the same, nothing is written."""
        folder = self.root / "steps"
        folder.mkdir(exist_ok=True)
        with files.locked(folder / ".lock"):  # two steps of one number would break the chain
            earlier = self.steps()
            step = ProjectStep(
                len(earlier) + 1,
                name,
                self.time_text(self.clock()),
                dict(inputs or {}),
                json.loads(json.dumps(dict(parameters or {}))),
                seed,
                dict(outputs or {}),
                previous=self.last_step_hash(),
            )
            last = next((item for item in reversed(earlier) if item.name == name), None)
            if last is not None and last.content() == step.content():
                return last
            files.save(step, folder / f"{step.number:04d}-{name}.json")
            return step

    def last_step_hash(self) -> str:
        """Sha256 of the log's last file, "" where there is none."""
        paths = self._step_files()
        return files.file_hash(paths[-1]) if paths else ""

    def _step_files(self) -> list[Path]:
        return sorted((self.root / "steps").glob("[0-9][0-9][0-9][0-9]-*.json"))

    @staticmethod
    def time_text(seconds: float) -> str:
        """A time as text, in UTC."""
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

    @property
    def frozen(self) -> bool:
        """Whether assembly has frozen the set."""
        return (self.root / "set" / "lineage.json").exists()

    def check_open(self) -> None:
        """Refuse to change what assembly has frozen."""
        if self.frozen:
            raise InputError(f"the set is frozen in {self.root / 'set'}; a change needs a new project")

    def close(self) -> None:
        """Close the database's connections."""
        if "database" in self.__dict__:
            self.database.dispose()


def read_project_secrets(root: Path) -> dict[str, str]:
    """The secrets of a project; one that was copied without them gets new ones."""
    try:
        local = json.loads((root / "local.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        local = new_project_secrets()
        write_project_secrets(root, local)
    except (OSError, ValueError) as error:
        raise InputError(f"{root / 'local.json'} cannot be read ({error}); restore it") from error
    names = ("secret", "owner_hash")
    if not isinstance(local, dict) or not all(_HEXADECIMAL.fullmatch(str(local.get(name, ""))) for name in names):
        raise InputError(f"{root / 'local.json'} does not hold the project's secrets; restore it")
    return dict(local)


def new_project_secrets(database_url: str = "") -> dict[str, str]:
    """Fresh secrets for a project; the owner's token is made by ``ProjectFolder.renew_owner_token``."""
    return {"secret": secrets.token_hex(32), "owner_hash": secrets.token_hex(32), "database_url": database_url}


def write_project_secrets(root: Path, local: dict[str, str]) -> None:
    """Write ``local.json`` so that its owner alone can read it, from its first byte on."""
    files.write_bytes(root / "local.json", (json.dumps(local, indent=1) + "\n").encode(), private=True)


def hash_project_rows(rows: Iterable[Any]) -> str:
    """Sha256 over rows of plain values, in their order, written one way on every machine.

    Example:
        >>> hash_project_rows([("a", 1)]) == hash_project_rows([["a", 1]])
        True
    """
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


def read_project_classes(path: str | os.PathLike[str]) -> tuple[TargetClass, ...]:
    """Read classes from a CSV file with columns class, definition, link and nearby (names with ; between them)."""
    return tuple(
        TargetClass(
            row["class"].strip(),
            row.get("definition", "").strip(),
            row.get("link", "").strip(),
            tuple(name.strip() for name in row.get("nearby", "").split(";") if name.strip()),
        )
        for row in tables.read_rows(path, required=("class",))
    )
