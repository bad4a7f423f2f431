"""A store on an object store: the S3 interface of a server on this machine, over HTTP."""

import os
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
from fsspec.asyn import sync as fsspec_sync
from tests.predictions.made import labels, names
from zarr.core.sync import sync

from hardpan import confusion
from hardpan.errors import InputError
from hardpan.predictions import Predictions, check, merge
from hardpan.predictions.checks import softmax

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore")]

N, C, SEEDS, EPOCHS = 60, 4, 2, 3
RECORD = """
import sys
import numpy as np
from hardpan import Recorder
from tests.predictions.made import labels, names
from tests.predictions.test_object_store import C, EPOCHS, N, SEEDS, predicted
with Recorder(sys.argv[1], ids=names(N), n_classes=C, labels=labels(N, C), block=20) as recorder:
    print("begun", flush=True)
    for seed in range(SEEDS):
        for epoch in range(recorder.next_epoch(seed), EPOCHS):
            recorder.record(predicted(seed, epoch), seed=seed, epoch=epoch)
            print(seed, epoch, flush=True)
print("end", flush=True)
"""


def predicted(seed, epoch):
    return softmax(np.random.default_rng([seed, epoch]).normal(size=(N, C))).astype(np.float16)


@pytest.fixture
def bucket(monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    settings = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in (settings | {"AWS_ENDPOINT_URL": address}).items():
        monkeypatch.setenv(name, value)
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        import boto3

        boto3.client("s3").create_bucket(Bucket="runs")
        yield "s3://runs"
    finally:
        forget_connections()
        server.terminate()
        server.wait(timeout=20)


def forget_connections():
    """Close what knows the server of this test: another one has another address."""
    from s3fs import S3FileSystem

    for system in S3FileSystem._cache.values():
        if system._s3 is not None:
            closing = system._s3.__aexit__(None, None, None)
            sync(closing) if system.asynchronous else fsspec_sync(system.loop, lambda it=closing: it)
    S3FileSystem.clear_instance_cache()


def start_recording(place):
    """Record in another process, which says what is done."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-c", RECORD, place],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    )


def record(place):
    """Record to the end; give what the other process said was done."""
    running = start_recording(place)
    told, _ = running.communicate()
    assert running.returncode == 0
    return told.splitlines()


def test_recorded_merged_verified_and_scored_as_on_a_disk(bucket, tmp_path):
    place = f"{bucket}/run"
    assert record(place)[-1] == "end"
    assert check(place).ok
    local = Predictions.create(tmp_path / "run", ids=names(N), n_classes=C, labels=labels(N, C), block=20)
    for seed in range(SEEDS):
        for epoch in range(EPOCHS):
            local.write(seed, epoch, predicted(seed, epoch))
    remote = Predictions.open(place)
    assert np.array_equal(remote.to_array(), local.to_array())
    assert np.array_equal(np.asarray(confusion.scores(place)), np.asarray(confusion.scores(tmp_path / "run")))
    other = Predictions.create(f"{bucket}/other", ids=names(N), n_classes=C, labels=labels(N, C))
    other.write(7, 0, predicted(7, 0))
    merge([place, f"{bucket}/other"], f"{bucket}/all", common=True)
    assert Predictions.open(f"{bucket}/all").seeds == (0, 1, 7)
    damage(place)
    problems = check(place).problems
    assert [item.file for item in problems] == ["probabilities/1/2/c/1/0"]


def test_what_another_process_wrote_since_is_seen(bucket):
    """A reader that has listed a folder sees what is written into it later: numbers, not zeros."""
    place = f"{bucket}/watched"
    mine = Predictions.create(place, ids=names(N), n_classes=C, labels=labels(N, C), block=20)
    mine.write(0, 0, predicted(0, 0)[:20])
    watching = Predictions.open(place)
    assert watching.seeds == ()
    assert check(place).ok
    assert record(place)[-1] == "end"
    watching.reader.refresh()
    assert watching.seeds == (0, 1)
    for seed in range(SEEDS):
        for epoch in range(EPOCHS):
            assert np.array_equal(watching.read(seed, epoch), predicted(seed, epoch))
    assert check(place).ok


def test_killed_at_any_moment_nothing_committed_is_lost(bucket):
    place, rng, kills = f"{bucket}/killed", np.random.default_rng(0), 0
    for _ in range(8):
        running = start_recording(place)
        assert running.stdout.readline().strip() == "begun"
        time.sleep(rng.uniform(0, 0.25))
        running.kill()
        running.communicate()
        kills += running.returncode != 0
        assert check(place).ok
    assert record(place)[-1] == "end"
    found = Predictions.open(place)
    assert kills > 0
    assert (found.seeds, found.epochs) == (tuple(range(SEEDS)), tuple(range(EPOCHS)))
    for seed in range(SEEDS):
        for epoch in range(EPOCHS):
            assert np.array_equal(found.read(seed, epoch), predicted(seed, epoch))


@pytest.mark.parametrize("moment", ["create", "create_json"])
def test_a_writer_who_comes_second_is_refused_and_leaves_the_first_ones_shard(bucket, monkeypatch, moment):
    path = f"{bucket}/{moment}"
    early = Predictions.create(path, ids=names(N), n_classes=C, labels=labels(N, C), block=20)
    late = Predictions.open(path)
    before = getattr(late.reader.storage, moment)

    def after_the_other(*arguments):
        monkeypatch.setattr(late.reader.storage, moment, before)
        early.write(0, 0, predicted(0, 0)[:20])
        before(*arguments)

    monkeypatch.setattr(late.reader.storage, moment, after_the_other)
    with pytest.raises(InputError):
        late.write(0, 0, predicted(1, 1)[:20])
    early.write(0, 0, predicted(0, 0))
    assert np.array_equal(Predictions.open(path).read(0, 0), predicted(0, 0))
    assert check(path).ok


def test_a_server_that_is_away_is_one_sentence(bucket, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", closed)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    forget_connections()
    with pytest.raises(InputError, match=r"^s3://runs/run\b.*zarr\.json"):
        Predictions.open(f"{bucket}/run")


def damage(place):
    import boto3

    client = boto3.client("s3")
    key = f"{place.removeprefix('s3://runs/')}/probabilities/1/2/c/1/0"
    content = bytearray(client.get_object(Bucket="runs", Key=key)["Body"].read())
    content[len(content) // 2] ^= 1
    client.put_object(Bucket="runs", Key=key, Body=bytes(content))
