"""kill -9 at random moments of recording and of merging: what was committed is there, equal and not doubled."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

from hardpan.errors import InputError
from hardpan.predictions import Predictions, check
from hardpan.predictions import merge as merge_stores
from hardpan.predictions.checks import softmax
from hardpan.predictions.recorder import Recorder

N, C, SEEDS, EPOCHS, BLOCK = 200, 5, 2, 3, 70
IDS = np.array([f"image-{row}" for row in range(N)])
KILLS = int(os.environ.get("HARDPAN_KILLS", "22"))  # bench/faults.py asks for more


def predicted(seed, epoch):
    return softmax(np.random.default_rng([seed, epoch]).normal(size=(N, C))).astype(np.float16)


def record(path, told):
    """Record every seed and epoch from where the store ends; ``told`` gets a line for each that is done."""
    with Recorder(path, ids=IDS, n_classes=C, block=BLOCK) as recorder:
        for seed in range(SEEDS):
            for epoch in range(recorder.next_epoch(seed), EPOCHS):
                order = np.random.default_rng([7, seed, epoch]).permutation(N)
                for rows in np.array_split(order, 5):
                    recorder.record(predicted(seed, epoch)[rows], rows, seed=seed, epoch=epoch)
                os.write(told, f"{seed} {epoch}\n".encode())


def merge(path, told):
    merge_stores(sorted(path.parent.parent.glob("source-*")), path, block=BLOCK)


def start(work, path):
    told = os.open(path.parent / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work(path, told)
            code = 0
        finally:
            os._exit(code)
    os.close(told)
    return pid


def assert_whole(path):
    """Every epoch that was told to be done is there; every epoch that is there is equal; no file is too many."""
    told = (path.parent / "told").read_text().splitlines()
    try:
        found = Predictions.open(path)
    except InputError:
        assert not told
        return
    for seed in range(SEEDS):
        for epoch in range(EPOCHS):
            if found.committed(seed, epoch):
                assert np.array_equal(found.read(seed, epoch), predicted(seed, epoch))
            else:
                assert f"{seed} {epoch}" not in told
    assert check(path).ok
    shards = list(path.glob("probabilities/*/*/c/*/0"))
    assert len(shards) <= SEEDS * EPOCHS * found.reader.header.blocks


def kill_again_and_again(folder, work):
    """Runs that are killed at random moments and started again, each until it is done, and rounds of them."""
    rng, kills, rounds, whole = np.random.default_rng(0), 0, 0, 0.0
    while kills < KILLS or rounds < 2:
        path = folder / f"round-{rounds}" / "run"
        path.parent.mkdir()
        code = -signal.SIGKILL
        while code:
            begun = time.monotonic()
            pid = start(work, path)
            if rounds and kills < KILLS:
                time.sleep(rng.uniform(0, whole / 2))
                os.kill(pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert code in (0, -signal.SIGKILL)
            kills += code != 0
            whole = whole or time.monotonic() - begun
            assert_whole(path)
        found = Predictions.open(path)
        assert (found.seeds, found.epochs) == (tuple(range(SEEDS)), tuple(range(EPOCHS)))
        assert (
            len(list(path.glob("probabilities/*/*/commit/*.json"))) == SEEDS * EPOCHS * found.reader.header.blocks
        )
        rounds += 1
    assert kills >= min(KILLS, 20)


def in_a_process_of_its_own(function, *arguments):
    """Workers are forked, quickly, from a process that has imported everything and started no thread."""
    worker = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    worker.start()
    worker.join()
    assert worker.exitcode == 0


@pytest.mark.soak
def test_recording_survives_kill_9(tmp_path):
    in_a_process_of_its_own(kill_again_and_again, tmp_path, record)


@pytest.mark.soak
def test_merging_survives_kill_9(tmp_path):
    for number, rows in enumerate((slice(0, 90), slice(90, N))):
        for seed in range(SEEDS):
            source = Predictions.create(tmp_path / f"source-{number}-{seed}", ids=IDS[rows], n_classes=C)
            for epoch in range(EPOCHS):
                source.write(seed, epoch, predicted(seed, epoch)[rows])
    in_a_process_of_its_own(kill_again_and_again, tmp_path, merge)
