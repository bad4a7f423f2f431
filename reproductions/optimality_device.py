"""Figures 3 and 4 of "Evaluating State-of-the-Art Classification Models Against Bayes Optimality": the trainings.

    PYTHONPATH=src python3 reproductions/optimality_device.py mnist fashion-mnist --out OUT
    PYTHONPATH=src python3 reproductions/optimality_device.py mnist --temperatures 1 --rows 2000 --out OUT

Draws 60,000 + 10,000 examples from each flow (a name of the zoo or a folder) at each temperature, trains each
architecture on them and holds it against the exact Bayes error. One JSON a flow, temperature and group of models
goes to OUT; a run that was stopped goes on from there. optimality_figures.py draws from them. Needs NumPy, SciPy,
torch and hardpan; quick on a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from hardpan import engine, files, flows
from hardpan.engine import devices
from hardpan.studies import learning_curve
from hardpan.studies.learning_curve import CurveConfig

# The paper looks at temperatures from 0.2 up; it calls MNIST solved below 1 and Fashion-MNIST below 0.5.
TEMPERATURES = {"mnist": (0.5, 1.0, 1.4, 2.0), "fashion-mnist": (0.25, 0.5, 1.0, 1.4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flows", nargs="+")
    parser.add_argument("--models", default="linear,mlp,alexnet,convnet,wide-resnet-28-10")
    parser.add_argument("--temperatures", default="", help="with commas; default: those of the figures")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--test-rows", type=int, default=10_000)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    device = engine.pick_device("auto")
    models = tuple(given.models.split(","))
    for place in given.flows:
        flow, name = flows.load(place).to(device), Path(place).name
        for temperature in temperatures(given.temperatures, name):
            target = given.out / f"{name}-{temperature:g}-{'-'.join(models)}.json"
            if target.is_file():
                continue
            begun = time.monotonic()
            config = CurveConfig(
                temperature=temperature,
                models=models,
                sizes=(given.rows,),
                test=given.test_rows,
                epochs=given.epochs,
            )
            curve = learning_curve.grow(flow, config, name=name)
            seconds = time.monotonic() - begun
            about = {"device": devices.describe_device(device), "torch": torch.__version__, "seconds": seconds}
            files.write_text(target, json.dumps(about | {"curve": files.to_json(curve)}, indent=1))
            errors = ", ".join(f"{p.model} {100 * p.error.value:.3f} %" for p in curve.points)
            print(f"{name}, temperature {temperature:g}: floor {100 * curve.floor.value:.3f} %, {errors}; "
                  f"{seconds:.0f} s", flush=True)  # fmt: skip


def temperatures(given: str, name: str) -> tuple[float, ...]:
    return tuple(float(item) for item in given.split(",")) if given else TEMPERATURES[name]


if __name__ == "__main__":
    main()
