"""Take the pictures of the annotation pages: ``python docs/replicate_screenshots.py [FOLDER]``.

It needs the extra ``test`` (Playwright) and a Chromium. The project is the demo of digits with simulated people.
"""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import scipy.signal
import scipy.stats
import sklearn.metrics
import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from hardpan import Dataset, replicate
from hardpan.replicate import simulate
from hardpan.replicate.database import people as stored_people
from hardpan.replicate.database import questions, tasks
from hardpan.replicate.database.images import stored_images
from hardpan.replicate.pool import find_subclasses
from hardpan.web import serving
from hardpan.web.annotation import create_app, entry

PICTURES = Path(__file__).resolve().parent / "images"
STEPS = (
    ("demo", "--annotators", "12"),
    ("sample", "--strategy", "matched", "--per-class", "5"),
    ("duplicates", "-k", "2"),
)
LARGEST = 80_000
DESKTOP, PHONE = {"width": 1100, "height": 760}, {"width": 320, "height": 640}


def prepare(folder: Path) -> Any:
    """The demo, sampled, with pairs to review and an experiment of a few images."""
    for name, *options in STEPS:
        subprocess.run(
            [sys.executable, "-m", "hardpan", "replicate", name, str(folder), *options],
            check=True,
            stdout=-3,
            cwd=folder.parent,
        )
    project = replicate.Project.open(folder)
    find_subclasses(project, per_class=12)
    originals = [row.id for row in stored_images(project, "original")][:20]
    new = [row.id for row in stored_images(project, "candidate")][:20]
    questions.choose_questions(project, originals, new)
    invited = stored_people.invite_people(project, role="participant", uses=3)
    for number in range(3):
        person = stored_people.enter_by_invitation(project, invited.link, external_id=f"participant-{number}").id
        while asked := questions.next_question(project, person):
            questions.answer_question(project, person, asked.question, (asked.question * (3 + number)) % 10)
    return project


def prepare_texts(folder: Path) -> Any:
    """First paragraphs of the documentation of three modules; half of them are candidates."""
    modules = {"statistics": scipy.stats, "signals": scipy.signal, "metrics": sklearn.metrics}
    listed = {
        name: {inspect.getdoc(item) or "" for key, item in vars(module).items() if key[0] != "_"}
        for name, module in modules.items()
    }
    texts = {name: sorted({text.partition("\n\n")[0] for text in found}) for name, found in listed.items()}
    pairs = [(text, name) for name in texts for text in texts[name] if text.count(" ") in range(4, 30)]
    half = [pairs[0::2], pairs[1::2]]
    original = Dataset.from_arrays(
        [text for text, _ in half[0]], [name for _, name in half[0]], name="documentation"
    )
    classes = [
        replicate.TargetClass(name, f"Functions of {modules[name].__name__}") for name in original.class_names
    ]
    project = replicate.Project.create(folder, original, classes, grid=24)
    numbers = [project.config.class_index(name) for _, name in half[1]]
    simulate.add_candidate_arrays(project, [text for text, _ in half[1]], numbers)
    project.make_tasks()
    return project


class Camera:
    """A browser that knows the project's doors."""

    def __init__(self, browser: Any, project: Any, base: str, token: str, target: Path) -> None:
        self.browser, self.project, self.base, self.token, self.target = browser, project, base, token, target

    def window(self, role: str, size: dict[str, int], scheme: str = "light") -> Any:
        """A new window of someone in this role."""
        page = self.browser.new_page(viewport=size, color_scheme=scheme)
        if role == "owner":
            page.goto(f"{self.base}/owner/enter#{self.token}")
        else:
            page.goto(self.base + entry.path_of(stored_people.invite_people(self.project, role=role)))
        return page

    def take(self, page: Any, name: str) -> None:
        """Save what the window shows, in as few colours as keep it under 80 kB."""
        page.wait_for_timeout(600)
        path = self.target / f"replicate-{name}.png"
        page.screenshot(path=str(path))
        with Image.open(path) as opened:
            picture = opened.convert("RGB")
        for colours in (128, 48, 24, 16):
            picture.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
            if path.stat().st_size < LARGEST:
                break
        print(path, path.stat().st_size)


def shoot(camera: Camera) -> None:
    """Every page once; the grid also on a phone and on dark paper."""
    for name, size, scheme in (
        ("grid", DESKTOP, "light"),
        ("grid-dark", DESKTOP, "dark"),
        ("phone", PHONE, "dark"),
    ):
        page = camera.window("annotator", size, scheme)
        page.wait_for_selector("#start")
        if name == "grid":
            camera.take(page, "instructions")
        page.click("#start")
        page.wait_for_selector("#task:not([hidden]) .cell")
        for place in (0, 3, 4, 6):
            page.locator(".cell").nth(place).click()
        camera.take(page, name)
    page = camera.window("annotator", DESKTOP)
    page.click("#start")
    page.wait_for_selector("#task:not([hidden]) .cell")
    page.click("#none")
    page.wait_for_timeout(500)
    page.click("#stop")
    page.wait_for_selector("#thanks:not([hidden])")
    camera.take(page, "thanks")
    page = camera.window("selector", DESKTOP)
    page.wait_for_selector("tbody a")
    camera.take(page, "keywords")
    page.click("tbody a >> nth=0")
    page.wait_for_selector(".choosing .cell")
    for place in (1, 2, 4):
        page.locator(".choosing .cell").nth(place).click()
    camera.take(page, "select")
    page = camera.window("reviewer", DESKTOP)
    page.wait_for_selector("table")
    camera.take(page, "reviews")
    page.goto(f"{camera.base}/review/second")
    page.wait_for_selector(".cell")
    page.locator(".cell").nth(0).click()
    camera.take(page, "second")
    page.goto(f"{camera.base}/review/duplicates")
    page.click("#understood")
    page.wait_for_selector("#task:not([hidden])")
    camera.take(page, "pairs")
    page.goto(f"{camera.base}/review/final")
    page.wait_for_selector(".cell")
    page.locator(".cell").nth(1).click()
    camera.take(page, "final")
    page = camera.window("participant", DESKTOP)
    page.click("#start")
    page.wait_for_selector("#task:not([hidden])")
    camera.take(page, "people")
    page = camera.window("owner", DESKTOP)
    page.wait_for_selector(".tiles")
    camera.take(page, "owner")
    page.goto(f"{camera.base}/owner/enter")
    camera.take(page, "owner-enter")


def shoot_texts(camera: Camera) -> None:
    """The grid of texts."""
    page = camera.window("annotator", DESKTOP)
    page.click("#start")
    page.wait_for_selector("#task:not([hidden]) .cell")
    for place in (0, 4):
        page.locator(".cell").nth(place).click()
    camera.take(page, "texts")


def main(target: Path) -> None:
    """Serve the demo and a project of texts, and take every picture."""
    target.mkdir(parents=True, exist_ok=True)
    chromium = next(
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
        if (found := shutil.which(name))
    )
    with tempfile.TemporaryDirectory() as folder:
        project = prepare(Path(folder) / "new-digits")
        # People who have done all there is leave nothing to show: a second round for every task.
        extra = dict.fromkeys(range(1, 1 + sum(row.tasks for row in tasks.task_coverage(project))), 2)
        tasks.want_more_task_workers(project, extra)
        photograph(project, shoot, chromium, target)
        photograph(prepare_texts(Path(folder) / "new-texts"), shoot_texts, chromium, target)


def photograph(project: Any, shots: Callable[[Camera], None], chromium: str, target: Path) -> None:
    """Serve a project, take pictures of it, and close it."""
    listener = serving.bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(create_app(project), log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
            )
            base = serving.address(listener, "127.0.0.1")
            shots(Camera(browser, project, base, project.renew_owner_token(), target))
            browser.close()
    finally:
        server.should_exit = True
        thread.join()
        project.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
