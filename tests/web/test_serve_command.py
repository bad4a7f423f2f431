"""``hardpan replicate serve``: what it prints, how it stops, what it refuses; faults under load."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import httpx
import pytest
from tests.web import small
from tests.web.visitor import run_async

from bench import _load
from hardpan import replicate
from hardpan.cli import main
from hardpan.replicate.database import votes


def refused(capsys, folder, *options):
    with pytest.raises(SystemExit) as ended:
        main(["replicate", "serve", str(folder), *options])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert len(said.splitlines()) == 1
    return said


@pytest.fixture
def folder(tmp_path, database_server):
    """Where a project lies that nobody has open."""
    project, _ = small.copy(tmp_path / "project", database_server)
    project.close()
    yield project.root
    small.remove(project)


def test_it_prints_links_serves_and_stops_well(folder, capsys):
    server = _load.Server(folder, workers=5)
    try:
        assert "/owner/enter#" in server.said
        assert httpx.get(server.link).status_code == 303
        assert httpx.get(server.address).status_code == 200
        port = server.address.rpartition(":")[2]
        assert "is in use" in refused(capsys, folder, "--port", port)
    finally:
        assert server.stop() == 0


def test_a_script_gets_the_links_as_json(folder):
    command = [sys.executable, "-m", "hardpan", "replicate", "serve", str(folder), "--port", "0", "--json"]
    for time_of_start in range(2):
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            lines = []
            while not lines or lines[-1] != "}\n":
                lines.append(server.stdout.readline())
                assert lines[-1], server.stderr.read()
            found = json.loads("".join(lines))
            assert httpx.get(found["annotators"]).status_code == 303
            assert found["owner"].startswith(found["address"] + "/owner/enter#") == (time_of_start == 0)
        finally:
            server.send_signal(signal.SIGTERM)
            rest, said = server.communicate(timeout=30)
        assert (server.returncode, rest) == (0, "")
        assert said == "Stopped; every confirmed answer is stored.\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", "203.0.113.7"), "no address of this machine"),
        (("--address", "label.example.org"), "must begin with https://"),
        (("--database-url", "mysql://x"), "sqlite or postgresql"),
        (("--port", "70000"), "65535"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(folder, capsys, options, said):
    assert said in refused(capsys, folder, *options)


def test_a_folder_that_is_no_project_is_refused(tmp_path, capsys):
    assert "is no project" in refused(capsys, tmp_path)


@pytest.mark.soak
@pytest.mark.both_databases
def test_twenty_workers_at_once_none_lost_none_doubled(tmp_path, database_url):
    submissions = 200 if database_url else 500
    path = tmp_path / "project"
    project = _load.make_project(path, workers=20, tasks=27, grid=12, database_url=database_url)
    server = _load.Server(path, workers=20)
    try:
        tally = run_async(_load.drive(server.link, workers=20, submissions=submissions, rate=None))
    finally:
        assert server.stop() == 0
    assert len(tally.acknowledged) == submissions
    assert _load.check(project, tally) == (0, 0)
    assert len(votes.all_votes(project)) == submissions * 12
    project.close()


# One process that has everything loaded and forks a server when told to: a start takes a moment, not seconds. Every
# server has a fault of its own: none, a clock an hour off, a disk that is slow, a disk that is full for a while.
NURSERY = textwrap.dedent("""
    import os, random, resource, signal, sys, threading, time
    from hardpan import replicate
    from hardpan.web import serving
    from hardpan.web.annotation import create_app
    from hardpan.replicate.database import leases, people, votes
    from sqlalchemy import event
    import uvicorn, alembic.command
    folder, port = sys.argv[1], int(sys.argv[2])

    def fill_the_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        def limit():
            time.sleep(0.1)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
            time.sleep(0.3)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

        threading.Thread(target=limit, daemon=True).start()

    print("ready", flush=True)
    for number, line in enumerate(sys.stdin):
        child = os.fork()
        if child == 0:
            project = replicate.Project.open(folder)
            project.database.migrate()  # as serve does before it listens
            if number % 4 == 1:
                off = random.choice([-3600, 3600])
                project = project.with_clock(lambda: time.time() + off)
            if number % 4 == 2:
                event.listen(project.database._engine, "commit", lambda _: time.sleep(0.03 * random.random()))
            if number % 4 == 3:
                fill_the_disk()
            listener = serving.bind("127.0.0.1", port)
            serving.run(create_app(project), listener)
            os._exit(0)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)
""")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.soak
@pytest.mark.both_databases
def test_every_confirmed_vote_is_there_after_many_kills(tmp_path, database_url):
    kills, workers = 8 if database_url else 20, 50
    path = tmp_path / "project"
    project = _load.make_project(path, workers=workers, tasks=400, grid=12, database_url=database_url)
    link = project.invite(uses=workers).link
    project.close()
    port = free_port()
    nursery = subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(path), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert nursery.stdout.readline() == "ready\n"
    tally = _load.Tally()

    async def annotate(stop):
        crew = [
            _load.Annotator(k, f"http://127.0.0.1:{port}/annotate/join/{link}", tally, 120) for k in range(workers)
        ]

        async def work(one):
            await one.enter()
            while not stop.is_set() and (task := await one.task()):
                await one.submit(task)

        await asyncio.gather(*(work(one) for one in crew))
        await asyncio.gather(*(one.client.aclose() for one in crew))

    def start():
        nursery.stdin.write("\n")
        nursery.stdin.flush()
        return int(nursery.stdout.readline())

    async def fault(stop):
        for number in range(kills):
            server = start()
            before = len(tally.acknowledged)
            end = time.monotonic() + 60
            while len(tally.acknowledged) < before + 3 and time.monotonic() < end:  # it works again
                await asyncio.sleep(0.01)
            assert len(tally.acknowledged) >= before + 3, f"no answers after kill {number}"
            await asyncio.sleep(0.02 + 0.01 * (number % 7))
            os.kill(server, signal.SIGKILL)
            assert await asyncio.to_thread(nursery.stdout.readline) == "gone\n"
        server = start()
        stop.set()
        return server

    async def both():
        stop = asyncio.Event()
        working = asyncio.create_task(annotate(stop))
        server = await fault(stop)
        await working
        return server

    try:
        last = run_async(both())
        os.kill(last, signal.SIGTERM)
        assert nursery.stdout.readline() == "gone\n"
    finally:
        nursery.stdin.close()
        nursery.wait(timeout=15)
        nursery.stdout.close()
    project = replicate.Project.open(path)
    assert tally.retries > 0
    assert len(tally.acknowledged) >= 3 * kills
    assert _load.check(project, tally) == (0, 0)
    project.close()
