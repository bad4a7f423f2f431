"""Someone with a browser, without the browser: cookies, the page's token, and posts as the page sends them."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
from starlette.testclient import TestClient

from hardpan.replicate import database
from hardpan.web.annotation import create_app, entry
from hardpan.web.security import Gate, Limits, Role

GENEROUS = Limits(
    requests_per_second=1e6,
    requests_burst=1e6,
    posts_per_second=1e5,
    entries_per_minute=1e6,
    newcomers_per_hour=1e6,
    image_seconds=0.0,
)
ROLES = {"annotator": "annotate", "selector": "select", "reviewer": "review", "participant": "people"}


class Visitor:
    """One browser; ``role`` is the first part of the paths that it may open."""

    def __init__(self, app: Any, role: str) -> None:
        self.role = role
        if isinstance(app, str):  # the address of a server
            self.client = httpx.Client(base_url=app, timeout=60)
        else:
            self.client = TestClient(app, raise_server_exceptions=False, follow_redirects=False)
        self.csrf = ""

    def join(self, address: str) -> None:
        answer = self.client.get(address)
        assert answer.status_code == 303, answer.text
        self.read_token()

    def read_token(self) -> None:
        page = self.client.get(f"/{self.role}/")
        assert page.status_code == 200, page.text
        self.csrf = re.search(r'name="csrf" content="(\w+)"', page.text)[1]

    def get(self, path: str, **settings: Any) -> Any:
        return self.client.get(path, **settings)

    def post(self, path: str, body: Any, **headers: str) -> Any:
        sent = {"X-CSRF-Token": self.csrf} | {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Content-Type"] = "application/json"
        return self.client.post(path, content=json.dumps(body), headers=sent)

    def task(self, *besides: str) -> Any:
        return self.post("/annotate/api/task", {"besides": list(besides)}).json()["task"]

    def submit(self, task: Any, selected: list[int], key: str = "k") -> Any:
        return self.post("/annotate/api/submit", {"task": task["id"], "selected": selected, "key": key})


class Town:
    """A served project and the people who come to it; ``shift`` moves its clock forward, in seconds."""

    def __init__(self, project: Any, token: str, limits: Limits = GENEROUS, address: str = "") -> None:
        self.project, self.token, self.shift = project, token, 0.0
        self.app = address or create_app(project, limits)
        self._visitors: list[Visitor] = []

    def stranger(self, role: str = "annotate") -> Visitor:
        self._visitors.append(Visitor(self.app, role))
        return self._visitors[-1]

    def cookie_name(self, role: str) -> str:
        return Gate(self.project.secret, str).cookie_name(Role(role))

    def close(self) -> None:
        for visitor in self._visitors:
            visitor.client.close()

    def invited(self, role: str = "annotator", uses: int = 1) -> str:
        return entry.path_of(database.invite_people(self.project, role=role, uses=uses))

    def person(self, role: str = "annotator") -> Visitor:
        visitor = self.stranger(ROLES[role])
        visitor.join(self.invited(role))
        return visitor

    def owner(self) -> Visitor:
        owner = self.stranger("owner")
        answer = owner.client.post("/owner/api/enter", json={"token": self.token})
        assert answer.status_code == 200, answer.text
        owner.read_token()
        return owner
