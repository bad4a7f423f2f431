"""Engines and transactions: one kind for reading, one that takes the write lock at its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DataError, NoSuchModuleError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement

from hardpan.arguments import clean_text
from hardpan.errors import InputError, MissingExtra
from hardpan.replicate.database.models import VERSION, Event, create_tables

_CREATING, _ALONE = 727_001, 727_002  # locks of PostgreSQL, held to the end of a transaction


class Database:
    """A project's database: ``read()`` and ``write()`` give a connection in a transaction of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = _database_engine(url)
        self._writer = self._engine.execution_options(write=True)
        self._light_writer = self._engine.execution_options(write=True, light=True)
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
            with (self._light_writer if light else self._writer).begin() as connection:
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
                version = create_tables(connection)
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
def _sqlite_order(element: in_database_order, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)


@compiles(in_database_order, "postgresql")
def _postgresql_order(element: in_database_order, compiler: SQLCompiler, **options: Any) -> str:
    return f'{compiler.process(element.clauses, **options)} COLLATE "C"'


def log_event(connection: Connection, at: float, actor: str, what: str, /, **details: Any) -> None:
    """Append to the event log, inside the transaction of the change that it tells of."""
    connection.execute(insert(Event), {"at": at, "actor": actor, "what": what, "details": details})


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
            f"database address {url.partition('://')[0]!r} cannot be read; "
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
