"""Take the README's picture: ``python docs/screenshot.py [PAGE] [PICTURE]`` after ``make audit``.

It needs the extra ``test`` (Playwright) and a Chromium.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "audits" / "digits" / "index.html"
PICTURE = ROOT / "docs" / "images" / "audit-digits.png"
WIDTH, HEIGHT = 1280, 900
MOST_BYTES = 95_000
MARGIN = 14
# Parts of a page, one below the other; each is the box around everything that its selectors find.
README_PARTS = ("header", "main > section:first-of-type > h2, main > section:first-of-type > div > .gallery")


@contextmanager
def window(width: int = WIDTH, height: int = HEIGHT) -> Iterator[Any]:
    """A light browser window."""
    names = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
    chromium = next((path for name in names if (path := shutil.which(name))), None)
    if chromium is None:
        sys.exit("no Chromium found; install one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        browser.close()


def take(shown: Any, picture: Path, parts: Sequence[str] = (), *, most_height: int = 1400) -> None:
    """Save parts of what a window shows, or all that it shows, as a PNG of few bytes."""
    shown.wait_for_timeout(800)  # charts draw after the page has loaded
    picture.parent.mkdir(parents=True, exist_ok=True)
    if not parts:
        shown.screenshot(path=str(picture))
        whole = Image.open(picture).convert("RGB")
    else:
        pieces = [_piece(shown, part, picture) for part in parts]
        whole = Image.new("RGB", (WIDTH, sum(piece.height for piece in pieces)), "white")
        top = 0
        for piece in pieces:
            whole.paste(piece, (0, top))
            top += piece.height
        whole = whole.crop((0, 0, WIDTH, min(whole.height, most_height)))
    for colours in (256, 128, 64, 32, 16):
        few = whole.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(picture, optimize=True)
        if picture.stat().st_size < MOST_BYTES:
            break
    print(picture, picture.stat().st_size)


def _piece(shown: Any, part: str, picture: Path) -> Image.Image:
    boxes = [box for item in shown.locator(part).all() if (box := item.bounding_box())]
    if not boxes:
        sys.exit(f"the page has no {part}")
    top = min(box["y"] for box in boxes) - MARGIN
    bottom = max(box["y"] + box["height"] for box in boxes) + MARGIN
    scrolled = shown.evaluate("window.scrollY")
    clip = {"x": 0, "y": max(0.0, top + scrolled), "width": WIDTH, "height": bottom - max(0.0, top)}
    shown.screenshot(path=str(picture), full_page=True, clip=clip)
    return Image.open(picture).convert("RGB")


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:]]
    page = given[0] if given else PAGE
    if not page.exists():
        sys.exit(f"{page} is not there; run make audit first")
    with window() as opened:
        opened.goto(page.resolve().as_uri())
        opened.wait_for_load_state("networkidle")
        take(opened, given[1] if len(given) > 1 else PICTURE, README_PARTS)
