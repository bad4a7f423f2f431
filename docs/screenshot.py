"""Take the README's picture: ``python docs/screenshot.py [PAGE] [PICTURE]`` after ``make audit``.

It needs the extra ``test`` (Playwright) and a Chromium.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "audits" / "digits" / "index.html"
PICTURE = ROOT / "docs" / "images" / "audit-digits.png"
WIDTH, HEIGHT = 1100, 1820


def take(page_path: Path, picture: Path) -> None:
    """Open the page in a light window and save its upper part as PNG."""
    chromium = next(
        path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))
    )
    picture.parent.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        window = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        window.goto(page_path.resolve().as_uri())
        window.wait_for_load_state("networkidle")
        window.wait_for_timeout(500)  # charts draw after the page has loaded
        window.screenshot(path=str(picture))
        browser.close()


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:]]
    page = given[0] if given else PAGE
    if not page.exists():
        sys.exit(f"{page} is not there; run make audit first")
    target = given[1] if len(given) > 1 else PICTURE
    take(page, target)
    print(target)
