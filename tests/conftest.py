"""Fixtures that more than one part of the tests uses."""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.databases import (
    database_server,
    database_url,
    postgres_server,
    pytest_generate_tests,
)
from tests.pages.records import check_saved

from hardpan.report import Report

__all__ = [
    "database_server",
    "database_url",
    "postgres_server",
    "pytest_generate_tests",
]

ROOT = Path(__file__).resolve().parent.parent
# How long an example takes says how busy the machine is, not whether the code is right.
# A quarter of Hypothesis' default number of examples, so that the whole suite can be run often; `make soak` sets
# HARDPAN_EXAMPLES=200, and with CI set the examples are the same every time.
settings.register_profile(
    "hardpan",
    deadline=None,
    max_examples=int(os.environ.get("HARDPAN_EXAMPLES", "25")),
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("hardpan")
TEST_SECONDS, SOAK_SECONDS = 180, 600  # at least twice what the slowest ones take on two cores
# The shell has no windows, so a page costs half of what it does in a whole Chromium.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session", autouse=True)
def pages_have_what_their_record_has() -> Iterator[None]:
    """Every report that a test saves is read back, and its numbers are looked for on its page."""
    save = Report.save

    def checked(report: Report, folder: Any, **options: Any) -> Path:
        page = save(report, folder, **options)
        if page.name == "index.html":
            check_saved(page.parent)
        return page

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Report, "save", checked)
        yield


@pytest.fixture(autouse=True)
def no_test_hangs(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that waits for ever fails, and says where, instead of stopping the whole run."""
    limit = SOAK_SECONDS if request.node.get_closest_marker("soak") else TEST_SECONDS

    def stop(number: int, frame: Any) -> None:
        faulthandler.dump_traceback(sys.__stderr__, all_threads=True)
        pytest.fail(f"not done after {limit} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(limit)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium; a test that needs one is skipped, and says so, where there is none."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here: install it (Debian: apt install chromium) to run the tests that open pages")
    return found


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    """A headless browser for the whole session."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Root may not use Chromium's sandbox, and a container's /dev/shm is small.
        started = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield started
        started.close()
