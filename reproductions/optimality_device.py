"""Figures 3 and 4 of "Evaluating State-of-the-Art Classification Models Against Bayes Optimality": the trainings.

    PYTHONPATH=src python3 reproductions/optimality_device.py mnist fashion-mnist cifar10 --out OUT --at-once 4
    PYTHONPATH=src python3 reproductions/optimality_device.py mnist --temperatures 1 --rows 2000 --out OUT

Draws 60,000 + 10,000 examples from each flow (a name of the zoo or a folder) at each temperature, trains each
architecture on them with each seed and compares it with the exact Bayes error. One JSON per flow, temperature and
group of models goes to OUT; a run that was stopped goes on from there. --at-once runs so many processes, each with
its own flows and temperatures. optimality_figures.py draws from the JSON files. Needs NumPy, SciPy, torch and
hardpan; quick on a GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from hardpan import engine, files, flows, learning_curves
from hardpan.engine import devices
from hardpan.learning_curves import CurveConfig

# The paper looks at temperatures from 0.2 up; it calls MNIST solved below 1 and Fashion-MNIST below 0.5.
TEMPERATURES = {
    "mnist": (0.5, 0.8, 1.0, 1.2, 1.4, 2.0),
    "fashion-mnist": (0.25, 0.4, 0.5, 0.7, 1.0, 1.4),
    "cifar10": (0.2, 0.3, 0.4, 0.5, 0.7, 1.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flows", nargs="+")
    parser.add_argument("--models", default="linear,mlp,alexnet,convnet,wide-resnet-16-4")
    parser.add_argument("--temperatures", default="", help="with commas; default: those of the figures")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--test-rows", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=1, help="processes on the device")
    parser.add_argument("--share", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.at_once > 1 and not given.share:
        processes = [
            subprocess.Popen([sys.executable, *sys.argv, "--share", str(number + 1)])
            for number in range(given.at_once)
        ]
        raise SystemExit(max(process.wait() for process in processes))
    tasks = [(place, t) for place in given.flows for t in temperatures(given.temperatures, Path(place).name)]
    for place, temperature in tasks[max(0, given.share - 1) :: given.at_once]:
        measure(place, temperature, given)


def measure(place: str, temperature: float, given: argparse.Namespace) -> None:
    """All trainings at one temperature, unless their file is there already."""
    name, models = Path(place).name, tuple(given.models.split(","))
    target = given.out / f"{name}-{temperature:g}-{'-'.join(models)}.json"
    if target.is_file():
        return
    begun = time.monotonic()
    device = engine.pick_device("auto")
    config = CurveConfig(
        temperature=temperature,
        models=models,
        sizes=(given.rows,),
        test=given.test_rows,
        seeds=given.seeds,
        epochs=given.epochs,
    )
    curve = learning_curves.measure_learning_curve(
        flows.load(place).to(device),
        config,
        name=name,
        out=target.with_suffix(""),
        progress=told(name, temperature),
    )
    seconds = time.monotonic() - begun
    about = {"device": devices.describe_device(device), "torch": torch.__version__, "seconds": seconds}
    files.write_text(target, json.dumps(about | {"curve": files.to_json(curve)}, indent=1))
    errors = ", ".join(f"{p.model} {100 * p.error.value:.3f} %" for p in curve.points)
    print(f"{name}, temperature {temperature:g}: floor {100 * curve.floor.value:.3f} %, {errors}; {seconds:.0f} s",
          flush=True)  # fmt: skip


def told(name: str, temperature: float) -> Callable[[str, float], None]:
    begun, last = time.monotonic(), [""]

    def progress(line: str, done: float) -> None:
        if line != last[0]:
            last[0] = line
            print(
                f"{name} {temperature:g}: {time.monotonic() - begun:.1f} s, {100 * done:.0f} %, {line}", flush=True
            )

    return progress


def temperatures(given: str, name: str) -> tuple[float, ...]:
    return tuple(float(item) for item in given.split(",")) if given else TEMPERATURES[name]


if __name__ == "__main__":
    main()
