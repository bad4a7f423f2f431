"""SQLite and a real PostgreSQL for the tests: one server a session, a database of its own for every test."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardpan import replicate
from hardpan.replicate import Project
from hardpan.replicate.folder import write_project_secrets

_NUMBERS = itertools.count()
_UNPRIVILEGED = ("postgres", "nobody")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Folder of the server's socket; skipped, and said so, where there is no PostgreSQL to start."""
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        pytest.skip("no PostgreSQL here: put initdb and pg_ctl on the PATH to run these tests")
    with running_postgres() as folder:
        yield folder


@contextlib.contextmanager
def running_postgres(fsync: str = "off") -> Iterator[str]:
    """A PostgreSQL server in a folder of its own; gives the folder of its socket."""
    folder = Path(tempfile.mkdtemp(prefix="hardpan-pg-"))
    account = _account()
    if account is not None:  # the server refuses to run as root
        os.chown(folder, account.pw_uid, account.pw_gid)
    try:
        data = folder / "data"
        make = ["initdb", "-D", str(data), "-U", "hardpan", "-A", "trust", "-E", "UTF8", "--no-sync"]
        try:  # text in an order that is not SQLite's, as on most people's servers
            _run([*make, "--locale-provider=icu", "--icu-locale=en-US"], account, folder)
        except AssertionError:  # before version 15, or built without languages
            _run(make, account, folder)
        options = f"-c listen_addresses='' -k {folder} -c fsync={fsync} -c max_connections=200"
        _run(["pg_ctl", "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start"], account, folder)
        try:
            yield str(folder)
        finally:
            _run(["pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop"], account, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def restart_postgres(folder: str) -> None:
    """Restart a server as after a crash: whatever was under way is lost, and what was committed is recovered."""
    _control(Path(folder), "restart")


def fill_postgres_disk(folder: str, seconds: float) -> None:
    """Let every write of a server fail for a while, as on a full disk, and start it again if it gave up."""
    import psutil

    postmaster = psutil.Process(int((Path(folder) / "data" / "postmaster.pid").read_text().split()[0]))

    def limit(size: str) -> None:
        for process in [postmaster, *postmaster.children()] if postmaster.is_running() else []:
            with contextlib.suppress(AssertionError):  # a connection that has ended meanwhile
                _run(["prlimit", "--pid", str(process.pid), f"--fsize={size}:"], _account(), Path(folder))

    limit("1000")
    time.sleep(seconds)
    limit("unlimited")
    time.sleep(0.5)  # a server that cannot write its log stops by itself
    _control(Path(folder), "restart")


def _control(folder: Path, action: str) -> None:
    command = ["pg_ctl", "-D", str(folder / "data"), "-l", str(folder / "log"), "-m", "immediate", "-w", action]
    _run(command, _account(), folder)


def new_database(folder: str, like: str = "template1") -> str:
    """The address of a new database on the server with this socket: empty, or a copy of the one named.

    Without a server it is "": SQLite in the project's folder.
    """
    if not folder:
        return ""
    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    _execute(folder, f"CREATE DATABASE {name} TEMPLATE {like}")
    return f"postgresql://hardpan@/{name}?host={folder}"


def copy_project(folder: Path, path: Path) -> Project:
    """Open a copy of a project that nobody has open: its folder and, where it lies on a server, its database."""
    shutil.copytree(folder, path)
    project = replicate.Project.open(path)
    if url := project.local["database_url"]:
        project.local["database_url"] = new_database(url.partition("?host=")[2], like=name_of(url))
        write_project_secrets(path, project.local)
    return project


def name_of(url: str) -> str:
    """The name of a database that :func:`new_database` made."""
    return url.partition("@/")[2].partition("?")[0]


def drop_database(url: str) -> None:
    """Remove a database of a test; SQLite's, whose address is "", lies in the test's own folder."""
    if url:
        _execute(url.partition("?host=")[2], f"DROP DATABASE {name_of(url)} WITH (FORCE)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked ``both_databases`` run on SQLite and on PostgreSQL; other tests with a database on SQLite."""
    if "database_server" in metafunc.fixturenames:
        both = metafunc.definition.get_closest_marker("both_databases") is not None
        kinds = ["sqlite", "postgresql"] if both else ["sqlite"]
        metafunc.parametrize("database_server", kinds, indirect=True, scope="session")


@pytest.fixture(scope="session")
def database_server(request: pytest.FixtureRequest) -> str:
    """Where the database is: "" is SQLite in the project's folder, else the socket of a PostgreSQL server."""
    return "" if getattr(request, "param", "sqlite") == "sqlite" else request.getfixturevalue("postgres_server")


@pytest.fixture
def database_url(database_server: str) -> Iterator[str]:
    """An empty database of either kind: "" is SQLite in the project's folder."""
    url = new_database(database_server)
    yield url
    drop_database(url)


def _execute(folder: str, command: str) -> None:
    import psycopg

    with psycopg.connect(host=folder, user="hardpan", dbname="postgres", autocommit=True) as connection:
        connection.execute(command)


def _account() -> pwd.struct_passwd | None:
    if os.getuid() != 0:
        return None
    for name in _UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no other account to run it")


def _run(command: list[str], account: pwd.struct_passwd | None, folder: Path) -> None:
    who = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    with (folder / "output").open("wb") as output:  # a pipe would stay open for as long as the server runs
        done = subprocess.run(command, stdout=output, stderr=output, cwd=folder, check=False, **who)
    assert done.returncode == 0, (folder / "output").read_text(encoding="utf-8", errors="replace")
