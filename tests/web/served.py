"""The site on a real port, in a thread of the test, with a clock that can be moved."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import uvicorn
from tests.web.visitor import GENEROUS

from hardpan.replicate import database
from hardpan.replicate.database import votes as stored_votes
from hardpan.web import serving
from hardpan.web.annotation import create_app, entry


class Served:
    """A running server; ``shift`` moves its clock forward, in seconds."""

    def __init__(self, project: Any, token: str) -> None:
        self.shift = 0.0
        clock = project.clock
        self.project = replace(project, clock=lambda: clock() + self.shift)
        self.token = token
        self._listener = serving.bind("127.0.0.1", 0)
        self.address = serving.address(self._listener, "127.0.0.1")
        settings = uvicorn.Config(create_app(self.project, GENEROUS), log_level="warning", access_log=False)
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]})
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def link(self, role: str = "annotator", uses: int = 1) -> str:
        return self.address + entry.path_of(database.invite_people(self.project, role=role, uses=uses))

    @property
    def owner_link(self) -> str:
        return f"{self.address}/owner/enter#{self.token}"

    def votes(self) -> list[Any]:
        return stored_votes.all_votes(self.project)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()
        self.project.close()


class Window:
    """A browser of its own, with everything that its pages complained of or asked elsewhere."""

    def __init__(self, browser, served, **settings):
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | settings))
        self.served, self.complaints, self.requests = served, [], []
        self.page = self.tab()

    def tab(self):
        page = self.context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        page.on("request", lambda request: self.requests.append(request))
        return page

    def start(self, page=None):
        page = page or self.page
        page.goto(self.served.link())
        page.click("#start")
        return self.grid(page)

    def grid(self, page=None):
        (page or self.page).wait_for_selector("#task:not([hidden]) .cell")
        return page or self.page
