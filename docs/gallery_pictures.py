"""Make the pages of the gallery and take their pictures: ``python docs/gallery_pictures.py [FOLDER]``.

It needs the extra ``test`` (Playwright, torch) and a Chromium, and takes some minutes; pages that
are in FOLDER already are not made again. Those of the annotation pages come from ``docs/replicate_screenshots.py``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from screenshot import README_PARTS, take, window

from hardpan.auditing import example_table
from hardpan.web import serving
from hardpan.web.explorer import create_app

PICTURES = Path(__file__).resolve().parent / "images"
COMMANDS = {
    "audits/digits": "audit digits",
    "run": "train digits --model mlp --seeds 3 --epochs 8",
    "floor": "floor digits",
    "confusion": "confusion score run --data digits",
    "testbed": "testbed compare original.csv new.csv",
    "leaderboard": "leaderboard report original.csv",
    "samples": "flow samples fashion-mnist",
}
# How high the picture of a page may be: its first screen and the first section.
PAGES = {"floor": 700, "confusion": 1150, "testbed": 1200, "leaderboard": 1000, "samples": 1000}


def make(folder: Path) -> None:
    """Run the commands whose results are not in the folder."""
    rng = np.random.default_rng(0)
    skill = np.linspace(0.2, 2.4, 20)
    for name, count, shift in (("original", 1000, 0.0), ("new", 800, 0.4)):
        difficulty = rng.normal(shift, 1.0, count)
        right = rng.random((20, count)) < 1 / (1 + np.exp(difficulty - skill[:, None]))
        lines = ["model,item,correct"]
        lines += [
            f"model-{k:02d},{name}-{i},{int(value)}" for k, row in enumerate(right) for i, value in enumerate(row)
        ]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for place, command in COMMANDS.items():
        if not (folder / place).exists():
            words = [sys.executable, "-m", "hardpan", *command.split(), "--out", place]
            subprocess.run(words, check=True, cwd=folder, stdout=subprocess.DEVNULL)


def shoot_pages(folder: Path, target: Path) -> None:
    """The README's picture, and one of each page."""
    with window() as opened:
        opened.goto((folder / "audits" / "digits" / "index.html").resolve().as_uri())
        take(opened, target / "audit-digits.png", README_PARTS)
        for name, height in PAGES.items():
            opened.goto((folder / name / "index.html").resolve().as_uri())
            take(
                opened, target / f"page-{name}.png", ("header", "main > section:first-of-type"), most_height=height
            )


def shoot_notebook(target: Path) -> None:
    """What docs/tutorials/notebook.ipynb shows for its first report."""
    book = json.loads((PICTURES.parent / "tutorials" / "notebook.ipynb").read_text(encoding="utf-8"))
    outputs = [output.get("data", {}) for cell in book["cells"] for output in cell.get("outputs", ())]
    shown = next(data["text/html"] for data in outputs if "text/html" in data)
    with window(1000, 390) as opened:
        opened.set_content(f'<body style="margin: 1rem; font-family: sans-serif">{"".join(shown)}</body>')
        take(opened, target / "notebook.png")


def shoot_explorer(folder: Path, target: Path) -> None:
    """Serve the explorer over the audit and show the most confusing examples."""
    application = create_app(
        example_table.read_example_table(folder / "audits" / "digits"), title="Examples of digits"
    )
    listener = serving.bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        with window(1100, 760) as opened:
            opened.goto(serving.address(listener, "127.0.0.1"))
            opened.wait_for_selector("#sort option", state="attached")
            opened.select_option("#sort", "confusion")
            _select(opened, 3)
            take(opened, target / "explorer.png")
    finally:
        server.should_exit = True
        thread.join()


def _select(opened: Any, count: int) -> None:
    opened.wait_for_timeout(800)
    boxes = opened.locator("#results input[type=checkbox]")
    for place in range(min(count, boxes.count())):
        boxes.nth(place).check()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        place.mkdir(parents=True, exist_ok=True)
        make(place)
        shoot_pages(place, PICTURES)
        shoot_explorer(place, PICTURES)
        shoot_notebook(PICTURES)
