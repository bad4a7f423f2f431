"""``hardpan replicate serve``: what it prints, how it stops, what it refuses; faults under load."""

import json
import signal
import subprocess
import sys

import httpx
import pytest
from tests.databases import fill_postgres_disk, restart_postgres
from tests.web import kills as server_kills
from tests.web import load, small

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
    server = load.Server(folder, workers=5)
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
        (("--host", "203.0.113.7"), "203.0.113.7"),
        (("--address", "label.example.org"), "must begin with https://"),
        (("--address", "https://"), "--address"),
        (("--address", "https://label.example.org/digits"), "without a path"),
        (("--address", "https://label.example.org:port"), "--address"),
        (("--port", "70000"), "65535"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(folder, capsys, options, said):
    assert said in refused(capsys, folder, *options)


def test_a_folder_that_is_no_project_is_refused(tmp_path, capsys):
    assert "is not a project" in refused(capsys, tmp_path)


@pytest.mark.soak
@pytest.mark.both_databases
def test_twenty_workers_at_once_none_lost_none_doubled(tmp_path, database_url):
    submissions = 200 if database_url else 500
    path = tmp_path / "project"
    project = load.make_project(path, workers=20, tasks=27, grid=12, database_url=database_url)
    server = load.Server(path, workers=20)
    try:
        tally = load.run_async(load.drive(server.link, workers=20, submissions=submissions, rate=None))
    finally:
        assert server.stop() == 0
    assert len(tally.acknowledged) == submissions
    assert load.check(project, tally) == (0, 0)
    assert len(votes.all_votes(project)) == submissions * 12
    project.close()


@pytest.mark.soak
@pytest.mark.both_databases
def test_every_confirmed_vote_is_there_after_many_kills(tmp_path, database_url):
    kills = 8 if database_url else 20
    path = tmp_path / "project"
    server = database_url.partition("?host=")[2]
    outages = [lambda: restart_postgres(server), lambda: fill_postgres_disk(server, 0.4)] if server else []
    tally = server_kills.run(path, workers=50, kills=kills, database_url=database_url, outages=outages)
    project = replicate.Project.open(path)
    assert tally.retries > 0
    assert tally.statuses[500] == 0
    assert len(tally.acknowledged) >= 3 * kills
    assert load.check(project, tally) == (0, 0)
    project.close()
