"""Glow on a GPU: do the fast kernels compute the same, how fast are they beside normflows, and what do they reach?

    python reproductions/flow_device.py check                      fast paths against plain float32
    python reproductions/flow_device.py speed --peer FOLDER        images/s of variants, beside normflows in FOLDER
    python reproductions/flow_device.py products                   block sizes of the masked product
    python reproductions/flow_device.py trials DATA --minutes 1    short fits with different settings
    python reproductions/flow_device.py bottleneck DATA --minutes 0.5  two classification losses at several weights
    python reproductions/flow_device.py equal DATA --peer FOLDER   NLL after equal steps, beside normflows
    python reproductions/flow_device.py bounds DATA --minutes 0.4  short compact fits with other bounds of couplings
    python reproductions/flow_device.py train DATA --minutes 4     fit DATA (a name or folder for Dataset.open)
    python reproductions/flow_device.py pack DATA FILE --rows 30000    a dataset as a small lossless file
    python reproductions/flow_device.py join FOLDER                the split bundle of a train call as files again

Every command takes --out FOLDER (records as JSON) and --tiny (small sizes, to try it on a CPU); the jobs are in
reproductions/flow_jobs. Setting: Theisen et al. 2021, section 4.1: K = 16 steps, L = 3 levels, C = 512 channels,
32 × 32.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBS = {
    "check": "kernels",
    "speed": "speed",
    "products": "kernels",
    "trials": "trials",
    "bottleneck": "bottleneck",
    "equal": "equal_steps",
    "bounds": "bounds",
    "train": "train",
    "pack": "packing",
    "join": "bundles",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in JOBS:
        add_options(name, commands.add_parser(name))
    given = parser.parse_args()
    if given.command != "pack":
        given.out.mkdir(parents=True, exist_ok=True)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    module = importlib.import_module(f"reproductions.flow_jobs.{JOBS[given.command]}")
    getattr(module, given.command)(given)


def add_options(name: str, command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", type=Path, default=Path("device-out"))
    command.add_argument("--tiny", action="store_true")
    if name in ("speed", "equal"):
        command.add_argument("--peer", type=Path, help="folder that holds the package normflows")
    if name in ("trials", "bottleneck", "equal", "bounds", "train", "pack", "join"):
        command.add_argument("data")
    if name == "pack":
        command.add_argument("file", type=Path)
        command.add_argument("--rows", type=int, default=0, help="training rows to keep (0: all)")
        command.add_argument("--test-rows", type=int, default=0, help="test rows to keep (0: all)")
    if name in ("bounds", "train", "trials", "bottleneck"):
        command.add_argument("--minutes", type=float, default=4.0)
    if name in ("train", "trials"):
        command.add_argument("--compact", action="store_true", help="a flow of at most 2 MB")
        command.add_argument("--flips", action="store_true", help="train on mirrored images, too")
    if name == "train":
        command.add_argument("--dequantization", default="uniform")
        command.add_argument("--class-loss", default="head")
        command.add_argument("--all", action="store_true", help="train on the validation images, too")
        command.add_argument("--name", default="")
        command.add_argument("--batch", type=int, default=256)
        command.add_argument("--rate", type=float, default=0.0)
        command.add_argument("--class-weight", type=float, default=0.01)
        command.add_argument("--precision", default="bf16")
        command.add_argument("--dropout", type=float, default=0.0)
        command.add_argument("--couplings", default="", help="least scale, largest scale and reach, with commas")
        command.add_argument("--bounds", type=Path, help="bounds.json of the bounds command (default: ours)")
        command.add_argument(
            "--sweep", type=int, default=0, help="epochs of small fits that choose λ by validation NLL (0: none)"
        )
    if name == "trials":
        command.add_argument("--only", default="", help="positions of trials in the list, with commas; else all")
    if name == "equal":
        command.add_argument("--steps", type=int, default=300)


if __name__ == "__main__":
    main()
