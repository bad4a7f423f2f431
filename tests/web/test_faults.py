"""A server whose database goes away, whose clients are slow, whose proxy lies; modes of its files."""

import logging
import os
import socket
import stat
import threading
import time

import httpx
import pytest
import uvicorn
from sqlalchemy.exc import OperationalError
from starlette.responses import PlainTextResponse
from tests.web.load import run_async

from hardpan.web import serving


@pytest.fixture
def broken(monkeypatch, town):
    """Make every transaction fail as it does when the server of the database is gone, or the disk is full."""

    def fail(error):
        def begin(*_, **__):
            raise error

        monkeypatch.setattr(type(town.project.database), "write", begin)
        monkeypatch.setattr(type(town.project.database), "read", begin)

    yield fail
    monkeypatch.undo()


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("SELECT 1", {}, Exception("server closed the connection")),
        OSError(28, "No space left on device"),
    ],
    ids=["database", "disk"],
)
def test_an_outage_is_503_with_one_line_of_log_and_nothing_is_lost(town, broken, caplog, monkeypatch, error):
    worker = town.person()
    task = worker.task()
    with caplog.at_level(logging.ERROR, "hardpan.web"):
        broken(error)
        answers = [worker.submit(task, [0]) for _ in range(50)]
    assert {answer.status_code for answer in answers} == {503}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in answers)
    assert len([r for r in caplog.records if r.name == "hardpan.web"]) == 1
    assert not any(record.exc_info for record in caplog.records)
    monkeypatch.undo()  # it is back
    assert worker.submit(task, [0]).json()["state"] == "counted"


@pytest.fixture
def served(monkeypatch):
    """Start the server's own loop on a free port around any app; gives its address."""
    started = []

    def start(app, **options):
        listener = serving.bind("127.0.0.1", 0)
        found = {}
        real = uvicorn.Server.__init__

        def keep(self, config):
            real(self, config)
            found["server"] = self

        monkeypatch.setattr(uvicorn.Server, "__init__", keep)
        thread = threading.Thread(target=serving.run, args=(app, listener), kwargs=options)
        thread.start()
        while not ("server" in found and found["server"].started):
            time.sleep(0.01)
        started.append((found["server"], thread, listener))
        return listener.getsockname()[:2]

    yield start
    for server, thread, listener in started:
        server.should_exit = True
        thread.join()
        listener.close()


async def who(scope, receive, send):
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    await PlainTextResponse(f"{scope['client'][0]} {scope['scheme']}")(scope, receive, send)


@pytest.mark.parametrize(
    ("proxy", "seen"),
    [("", "127.0.0.1 http"), ("203.0.113.9", "127.0.0.1 http"), ("127.0.0.1", "198.51.100.7 https")],
)
def test_forwarded_addresses_are_believed_from_the_configured_proxy_alone(served, proxy, seen):
    host, port = served(who, trusted_proxy=proxy)
    headers = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https"}
    assert httpx.get(f"http://{host}:{port}/", headers=headers).text == seen


@pytest.mark.parametrize(
    ("host", "address", "proxy", "warned"),
    [
        ("127.0.0.1", "", "", []),
        ("0.0.0.0", "", "", ["--host 0.0.0.0"]),
        ("127.0.0.1", "http://label.example.org", "", []),
        ("127.0.0.1", "https://label.example.org", "", ["trusted_proxy"]),
        ("127.0.0.1", "https://label.example.org", "127.0.0.1", []),
        ("0.0.0.0", "https://label.example.org", "", ["--host 0.0.0.0", "trusted_proxy"]),
    ],
)
def test_what_exposes_links_or_merges_people_is_said(host, address, proxy, warned):
    with serving.bind(host, 0) as listener:
        said = serving.exposure(listener, address, proxy)
    assert len(said) == len(warned)
    assert all(part in sentence for part, sentence in zip(warned, said, strict=True))


async def read_all(scope, receive, send):
    if scope["type"] == "lifespan":
        return await who(scope, receive, send)
    while (await receive()).get("more_body"):
        pass
    return await PlainTextResponse("read")(scope, receive, send)


HALVES = [
    b"",
    b"GET / HTTP/1.1\r\nHost: x\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
]


def test_a_client_that_sends_half_a_request_is_cut_off_and_others_are_served(served, monkeypatch):
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 0.3)
    host, port = served(read_all)
    slow = [socket.create_connection((host, port)) for _ in range(20)]
    for k, connection in enumerate(slow):
        connection.settimeout(20)
        connection.sendall(HALVES[k % 3])
    kept = socket.create_connection((host, port))
    kept.settimeout(20)
    kept.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    while b"read" not in kept.recv(1000):
        pass
    kept.sendall(b"GET / HT")  # also half of the second request on a connection
    while kept.recv(1000):
        pass  # until the server has closed it
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 60.0)  # a busy machine may make a good client slow
    with httpx.Client(timeout=60) as client:
        for _ in range(2):
            assert client.get(f"http://{host}:{port}/").status_code == 200
    for connection in [*slow, kept]:
        while connection.recv(1000):
            pass
        connection.close()


def test_connections_above_the_limit_are_answered_503(served, monkeypatch):
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 4)
    host, port = served(who)
    address = f"http://{host}:{port}/"
    assert httpx.get(address, timeout=60).status_code == 200
    many = [socket.create_connection((host, port)) for _ in range(6)]
    end = time.monotonic() + 60
    while (status := httpx.get(address, timeout=60).status_code) != 503 and time.monotonic() < end:
        time.sleep(0.05)
    assert status == 503
    for connection in many:
        connection.close()
    while (status := httpx.get(address, timeout=60).status_code) != 200 and time.monotonic() < end:
        time.sleep(0.05)
    assert status == 200


def test_a_client_that_goes_away_in_the_middle_is_no_fault_of_the_server(town, caplog):
    async def request():
        sent = []
        messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
        headers = [(b"content-type", b"application/json"), (b"host", b"x")]
        scope = {"type": "http", "method": "POST", "path": "/owner/api/enter", "headers": headers}
        scope |= {"query_string": b"", "scheme": "http", "server": ("x", 80), "client": ("1.2.3.4", 1)}

        async def receive():
            return next(messages)

        async def send(message):
            sent.append(message)

        await town.app(scope, receive, send)
        return sent[0]["status"]

    assert run_async(request()) == 400
    assert not caplog.records


def test_leaving_ends_the_session_also_of_a_copied_cookie(town):
    owner = town.owner()
    copy = town.stranger("owner")
    copy.client.cookies.update(owner.client.cookies)
    assert copy.get("/owner/live").status_code == 200
    other = town.owner()
    assert owner.post("/owner/api/leave", {}).status_code == 200
    assert copy.get("/owner/live").status_code == 401
    assert other.get("/owner/live").status_code == 200  # another session of the owner


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_secrets_and_database_can_be_read_by_their_owner_alone(tmp_path):
    from tests.web import small

    before = os.umask(0)
    try:
        project, _ = small.make(tmp_path / "project", candidates=8)
        with project.database.read():
            names = sorted(path.name for path in project.root.glob("project.sqlite*"))
            modes = {name: stat.S_IMODE((project.root / name).stat().st_mode) for name in [*names, "local.json"]}
        assert "project.sqlite-wal" in modes
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE(project.root.stat().st_mode) == 0o700
        project.close()
    finally:
        os.umask(before)


def test_a_name_that_begins_a_formula_is_escaped_in_every_download(town):
    link = town.invited(uses=5)
    for name in ("=1+1", "@SUM(A1)", "-2+3", "+1"):
        visitor = town.stranger()
        visitor.client.get(link, params={"worker": name})
    content = town.owner().get("/owner/export/workers.csv").text
    assert "'=1+1" in content
    assert "'@SUM(A1)" in content
    assert "'-2+3" in content
    for line in content.splitlines():
        assert not any(cell[:1] in "=@" for cell in line.split(",") if cell)
