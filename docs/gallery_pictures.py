"""Make the pages of the gallery and take their pictures: ``python docs/gallery_pictures.py [FOLDER]``.

It needs the extra ``test`` (Playwright, torch) and a Chromium, and takes some minutes; pages that
are in FOLDER already are not made again. Those of the annotation pages come from ``docs/replicate_screenshots.py``.
"""

from __future__ import annotations

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

from hardpan import testbed
from hardpan.auditing import examples
from hardpan.web import serving
from hardpan.web.explorer import create_app

PICTURES = Path(__file__).resolve().parent / "images"
COMMANDS = {
    "audits/digits": "audit digits",
    "run": "train digits --model mlp --seeds 3 --epochs 8",
    "floor": "floor estimate digits --predictions run",
    "confusion": "confusion score run --data digits",
    "testbed": "testbed compare outcomes.npz --original original --new new",
    "samples": "flow samples fashion-mnist --temperature 0.2,1,1.4,3",
}
# Of which page which parts, and how high a picture may be.
PAGES = {
    "floor": ("floor", ("header", "#section-1 .charts figure:nth-child(-n+2)"), 1700),
    "confusion": ("confusion", ("header", "#section-1 .charts figure:nth-child(-n+2)", ".gallery"), 1400),
    "testbed": ("testbed", ("header", "#section-1 .charts figure:nth-child(-n+2)"), 1200),
    "samples": ("samples", ("header", "#section-1 .charts figure:nth-child(-n+2)", ".gallery"), 1400),
}


def make(folder: Path) -> None:
    """Run the commands whose results are not in the folder."""
    original, new = testbed.simulate(np.linspace(0.5, 3.0, 20), examples=(5000, 2000))
    np.savez(
        folder / "outcomes.npz",
        models=np.array(original.models),
        correct_original=original.scores,
        correct_new=new.scores,
    )
    for place, command in COMMANDS.items():
        if not (folder / place).exists():
            words = [sys.executable, "-m", "hardpan", *command.split(), "--out", place]
            subprocess.run(words, check=True, cwd=folder, stdout=subprocess.DEVNULL)


def shoot_pages(folder: Path, target: Path) -> None:
    """The README's picture, and one of each page."""
    with window() as opened:
        opened.goto((folder / "audits" / "digits" / "index.html").resolve().as_uri())
        take(opened, target / "audit-digits.png", README_PARTS)
        for name, (place, parts, height) in PAGES.items():
            opened.goto((folder / place / "index.html").resolve().as_uri())
            take(opened, target / f"page-{name}.png", parts, most_height=height)


def shoot_explorer(folder: Path, target: Path) -> None:
    """Serve the explorer over the audit and show the most confusing examples."""
    application = create_app(examples.read(folder / "audits" / "digits"), title="Examples of digits")
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
