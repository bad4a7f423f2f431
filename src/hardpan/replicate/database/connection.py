"""The tables of a project, and transactions: one kind for reading, one that takes the write lock at its beginning.

Times are seconds since 1970; class numbers are positions in the project's list.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    JSON,
    Connection,
    Double,
    Engine,
    ForeignKey,
    Index,
    String,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DataError, NoSuchModuleError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement

from hardpan.arguments import clean_text
from hardpan.errors import InputError, MissingExtra

_CREATING, _ALONE = 727_001, 727_002  # locks of PostgreSQL, held to the end of a transaction

VERSION = "0001"
APPEND_ONLY = ("votes", "events", "decisions", "answers")


class Database:
    """A project's database: ``read()`` and ``write()`` give a connection in a transaction of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = _database_engine(url)
        self.dialect = self._engine.dialect.name
        # What is read in one transaction is of one moment, as it always is on SQLite.
        options = {"isolation_level": "REPEATABLE READ"} if self.dialect == "postgresql" else {}
        self._reader = self._engine.execution_options(**options)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only looks."""
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def write(self, *, light: bool = False, alone: bool = False) -> Iterator[Connection]:
        """A transaction that changes: all of it is kept, or nothing.

        A ``light`` one does not wait for the disk on SQLite: a power failure may undo it (never a killed process),
        which suits leases: who held one takes the next. ``alone`` lets one of its kind in at a time, for what looks
        before it puts in; SQLite has one writer at a time anyway.
        """
        try:
            with self._engine.execution_options(write=True, light=light).begin() as connection:
                if alone:
                    self._wait_for_turn(connection, _ALONE)
                yield connection
        except DataError as error:  # PostgreSQL's numbers and texts have ends
            reason = str(error.orig).strip().partition("\n")[0]
            raise InputError(f"the database refuses a value ({reason}); give a smaller or plainer one") from error

    def create_tables(self) -> None:
        """Make the tables of a new database; several processes may do so at once."""
        address = make_url(self.url).render_as_string(hide_password=True)
        try:
            with self.write() as connection:
                self._wait_for_turn(connection, _CREATING)
                if not inspect(connection).has_table(TableVersion.__tablename__):
                    Base.metadata.create_all(connection)
                    _refuse_changes(connection)
                    connection.execute(insert(TableVersion), {"version_num": VERSION})
                version = connection.scalar(select(TableVersion.version_num))
        except DatabaseError as error:  # no server, or a file that is something else
            reason = str(error.orig).strip().partition("\n")[0]
            raise InputError(
                f"database {address} cannot be opened ({reason}); check its address and that it runs"
            ) from error
        if version != VERSION:
            raise InputError(
                f"database {address} was made by another version of hardpan (tables of version {version}); "
                "use that version, or create a new project"
            )

    def _wait_for_turn(self, connection: Connection, key: int) -> None:
        if self.dialect == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})

    def dispose(self) -> None:
        """Close every connection."""
        self._engine.dispose()


class in_database_order(FunctionElement[str]):  # noqa: N801 - used where SQL has a function
    """A text to order by, character by character as Python does; PostgreSQL's own order is that of its language."""

    inherit_cache = True


@compiles(in_database_order)
def _database_order(element: in_database_order, compiler: SQLCompiler, **options: Any) -> str:
    collation = ' COLLATE "C"' if compiler.dialect.name == "postgresql" else ""
    return compiler.process(element.clauses, **options) + collation


def check_database_text(name: str, text: str, longest: int = 2000) -> None:
    """Refuse a text that one kind of database would refuse or cut off, or that no page or table may have."""
    if len(text) > longest or clean_text(text, lines=True) != text:
        raise InputError(
            f"must have at most {longest:,} characters, no control character; got {text[:40]!r}", argument=name
        )


def _database_engine(url: str) -> Engine:
    try:
        address = make_url(url)
        if address.drivername in ("postgres", "postgresql"):
            address = address.set(drivername="postgresql+psycopg")
        if address.get_backend_name() not in ("sqlite", "postgresql"):
            raise InputError(
                f"database address must begin with sqlite or postgresql; got {address.get_backend_name()!r}"
            )
        ping = address.get_backend_name() != "sqlite"  # a file does not go away; a server may
        engine = create_engine(address, pool_size=16, max_overflow=32, pool_timeout=60, pool_pre_ping=ping)
    except (ArgumentError, NoSuchModuleError) as error:
        raise InputError(
            f"database address {str(url).partition('://')[0]!r} cannot be read; "
            "give one such as postgresql://user@host/name"
        ) from error
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "psycopg", "postgres") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite_transaction)
    return engine


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so, below
    for setting in ("busy_timeout=60000", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}").close()


def _begin_sqlite_transaction(connection: Connection) -> None:
    # A reader that becomes a writer half way can fail when another wrote in between; a writer says so at once.
    options = connection.get_execution_options()
    if options.get("write"):
        connection.exec_driver_sql(f"PRAGMA synchronous={'NORMAL' if options.get('light') else 'FULL'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("write") else "BEGIN")


def _refuse_changes(connection: Connection) -> None:
    """Triggers that refuse to alter rows of the append-only tables."""
    if connection.dialect.name == "postgresql":
        statements = [
            "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
        ] + [
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
            for table in APPEND_ONLY
        ]
    else:
        statements = [
            f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            for table in APPEND_ONLY
            for change in ("UPDATE", "DELETE")
        ]
    for statement in statements:
        connection.execute(text(statement))


class Base(DeclarativeBase):
    """What all tables share: plain dictionaries are stored as JSON."""

    type_annotation_map = {dict[str, Any]: JSON, list[str]: JSON, float: Double}  # noqa: RUF012 - SQLAlchemy reads it as declared


class Image(Base):
    """An original or a candidate; ``row`` is the position of an original in ``original/x.npy``."""

    __tablename__ = "images"
    id: Mapped[str] = mapped_column(String(200), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    content: Mapped[str] = mapped_column(String(64), index=True)
    class_index: Mapped[int | None] = mapped_column(index=True)
    keyword: Mapped[str | None] = mapped_column(String(200))
    source: Mapped[str] = mapped_column(Text, default="")
    date: Mapped[str | None] = mapped_column(String(40))
    split: Mapped[str] = mapped_column(String(16), default="")
    row: Mapped[int | None]
    width: Mapped[int]
    height: Mapped[int]
    details: Mapped[dict[str, Any]] = mapped_column(default=dict)


class Task(Base):
    """A grid of images for one target class, ``needed`` by a number of workers."""

    __tablename__ = "tasks"
    id: Mapped[int] = mapped_column(primary_key=True)
    batch: Mapped[int]
    class_index: Mapped[int]
    needed: Mapped[int]
    submitted: Mapped[int] = mapped_column(default=0)


class TaskImage(Base):
    """An image in a task: candidate, positive control or negative control."""

    __tablename__ = "task_images"
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"), primary_key=True)
    image_id: Mapped[str] = mapped_column(ForeignKey("images.id"), primary_key=True, index=True)
    role: Mapped[str] = mapped_column(String(16))


class Invitation(Base):
    """A link that lets people in: once, or as often as ``uses`` says."""

    __tablename__ = "invitations"
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    role: Mapped[str] = mapped_column(String(16))
    label: Mapped[str] = mapped_column(Text, default="")
    uses: Mapped[int]
    created_at: Mapped[float]
    expires_at: Mapped[float | None]
    revoked_at: Mapped[float | None]


class Worker(Base):
    """A person who came by an invitation, or an imported name of another platform."""

    __tablename__ = "workers"
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    invitation_id: Mapped[str | None] = mapped_column(ForeignKey("invitations.id"))
    external_id: Mapped[str] = mapped_column(String(200), default="")
    role: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[float]
    blocked_at: Mapped[float | None]
    excluded_at: Mapped[float | None]
    __table_args__ = (UniqueConstraint("invitation_id", "external_id"),)


class Assignment(Base):
    """A task held by one worker: leased until ``expires_at``, then submitted or returned."""

    __tablename__ = "assignments"
    id: Mapped[int] = mapped_column(primary_key=True)
    token: Mapped[str] = mapped_column(String(64), unique=True)
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"))
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"))
    state: Mapped[str] = mapped_column(String(16))
    leased_at: Mapped[float]
    expires_at: Mapped[float]
    submitted_at: Mapped[float | None]
    submission_key: Mapped[str | None] = mapped_column(String(200))
    image_ids: Mapped[list[str]]
    __table_args__ = (
        UniqueConstraint("task_id", "worker_id"),
        Index("ix_assignments_state", "state", "expires_at"),
        Index("ix_assignments_worker", "worker_id", "state", "expires_at", "task_id"),
    )


class Vote(Base):
    """One worker's answer on one image for one target class; never altered, never doubled."""

    __tablename__ = "votes"
    id: Mapped[int] = mapped_column(primary_key=True)
    image_id: Mapped[str] = mapped_column(ForeignKey("images.id"))
    class_index: Mapped[int]
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"))
    role: Mapped[str] = mapped_column(String(16))
    selected: Mapped[bool]
    task_id: Mapped[int | None]
    at: Mapped[float]
    __table_args__ = (
        UniqueConstraint("worker_id", "image_id", "class_index"),
        Index("ix_votes_image", "image_id", "class_index"),
    )


class Quota(Base):
    """How many new images a keyword of a class should give."""

    __tablename__ = "quotas"
    class_index: Mapped[int] = mapped_column(primary_key=True)
    keyword: Mapped[str] = mapped_column(String(200), primary_key=True)
    originals: Mapped[int]
    quota: Mapped[int]


class SampleRow(Base):
    """A candidate in the current sample, the round it came in by, and the one in which it was removed."""

    __tablename__ = "sample"
    image_id: Mapped[str] = mapped_column(ForeignKey("images.id"), primary_key=True)
    class_index: Mapped[int]
    keyword: Mapped[str | None] = mapped_column(String(200))
    frequency: Mapped[float | None]
    votes: Mapped[int]
    how: Mapped[str] = mapped_column(Text, default="")
    round: Mapped[int]
    removed_round: Mapped[int | None]
    removed_why: Mapped[str] = mapped_column(Text, default="")


class Pair(Base):
    """Two images that may be near-duplicates; the first is a candidate of the sample."""

    __tablename__ = "pairs"
    id: Mapped[int] = mapped_column(primary_key=True)
    image_id: Mapped[str] = mapped_column(ForeignKey("images.id"), index=True)
    other_id: Mapped[str] = mapped_column(ForeignKey("images.id"))
    other_split: Mapped[str] = mapped_column(String(16))
    l2: Mapped[float]
    ssim: Mapped[float]
    features: Mapped[float | None]
    round: Mapped[int]
    __table_args__ = (UniqueConstraint("image_id", "other_id"),)


class Decision(Base):
    """A person's verdict on a subject (an image or a pair); the latest one of each kind and subject counts."""

    __tablename__ = "decisions"
    id: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[str] = mapped_column(String(24))
    subject: Mapped[str] = mapped_column(String(200))
    verdict: Mapped[str] = mapped_column(String(16))
    worker_id: Mapped[str] = mapped_column(String(64))
    note: Mapped[str] = mapped_column(Text, default="")
    at: Mapped[float]
    submission_key: Mapped[str | None] = mapped_column(String(200), unique=True)
    __table_args__ = (Index("ix_decisions_subject", "step", "subject"),)


class Question(Base):
    """An image of the human-accuracy experiment, and the answer that is right."""

    __tablename__ = "questions"
    id: Mapped[int] = mapped_column(primary_key=True)
    image_id: Mapped[str] = mapped_column(ForeignKey("images.id"), unique=True)
    origin: Mapped[str] = mapped_column(String(16))
    class_index: Mapped[int]


class Answer(Base):
    """A participant's answer to a question; the first one counts."""

    __tablename__ = "answers"
    id: Mapped[int] = mapped_column(primary_key=True)
    question_id: Mapped[int] = mapped_column(ForeignKey("questions.id"))
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"))
    class_index: Mapped[int]
    at: Mapped[float]
    __table_args__ = (UniqueConstraint("question_id", "worker_id"),)


class Event(Base):
    """What happened, who did it and when; never altered."""

    __tablename__ = "events"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[float]
    actor: Mapped[str] = mapped_column(String(64))
    what: Mapped[str] = mapped_column(String(40), index=True)
    details: Mapped[dict[str, Any]]


class TableVersion(Base):
    """The version of the tables; its name is that of the first databases."""

    __tablename__ = "alembic_version"
    version_num: Mapped[str] = mapped_column(String(32), primary_key=True)
