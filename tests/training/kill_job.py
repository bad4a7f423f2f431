"""Trains in forked children and kills them with SIGKILL at random moments, then tells what the store holds.

The parent only forks, waits and kills: torch and Zarr start their threads in children, so that each fork is clean.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import sklearn.datasets  # noqa: F401 - imported before the forks, not once a child
import torch._dynamo  # noqa: F401 - optimisers import it

import hardpan.predictions.store
import hardpan.training.runs
from hardpan import training
from hardpan.predictions import Predictions
from hardpan.training.runs import load_run_data

CONFIG = training.TrainConfig(
    model="mlp", seeds=2, epochs=4, batch=64, device="cpu", model_options={"width": 32, "dropout": 0.1}
)


def train(out: Path) -> None:
    with hardpan.parallel(workers=1):
        training.train("digits", CONFIG, out=out)


def check(out: Path, reference: Path, told: Path) -> None:
    """Compare every committed epoch with the uninterrupted run's, and count them."""
    if not (out / "zarr.json").exists():
        told.write_text("0")
        return
    found, expected = Predictions.open(out), Predictions.open(reference)
    count = 0
    for seed in found.seeds:
        for epoch in found.epochs_of(seed):
            np.testing.assert_array_equal(found.read(seed, epoch), expected.read(seed, epoch))
            count += 1
    told.write_text(str(count))


def child(function, *arguments) -> int:
    number = os.fork()
    if number == 0:
        try:
            function(*arguments)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return number


def wait(number: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def main(folder: Path, kills: int) -> None:
    rng = random.Random(0)
    load_run_data("digits")  # children inherit it
    started = time.monotonic()
    assert wait(child(train, folder / "reference")) == 0
    whole = time.monotonic() - started
    counts, killed = [], 0
    out, told = folder / "run", folder / "told"
    # Each attempt lives for a part of the whole; a finished run is set aside and another begun.
    finished = 0
    while killed < kills:
        number = child(train, out)
        time.sleep(rng.uniform(0.2, 1.0) * whole)
        if os.waitpid(number, os.WNOHANG)[0] == 0:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            killed += 1
        assert wait(child(check, out, folder / "reference", told)) == 0, "a committed epoch is not what it was"
        counts.append(int(told.read_text()))
        if counts[-1] == 2 * CONFIG.epochs:
            assert wait(child(train, out)) == 0
            finished += 1
            out = folder / f"run-{finished}"
    assert wait(child(train, out)) == 0
    assert wait(child(check, out, folder / "reference", told)) == 0
    counts.append(int(told.read_text()))
    print(json.dumps({"killed": killed, "counts": counts, "whole": 2 * CONFIG.epochs, "seconds": whole}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
