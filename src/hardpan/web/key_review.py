"""Answer keys, one question at a time: the question, its key, what models say; a person says which answer is right.

It answers on this machine only. Every verdict is written at once to ``reviewed.csv``, the review sheet with
``correct_key`` and ``comment`` filled in, which ``hardpan leaderboard keys --reviewed`` scores again.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hardpan import files
from hardpan.leaderboard.keys import SuspectKeys, read_verdicts
from hardpan.pages.leaderboard.items import review_sheet
from hardpan.web import serving
from hardpan.web.security import local
from hardpan.web.shell import Shell, read_json, text_of

FILE = "reviewed.csv"
LONGEST = 1000


class KeyReview:
    """The verdicts on the items of a review sheet; those of an earlier review in the folder are kept.

    Args:
        result: the suspect keys.
        folder: where ``reviewed.csv`` is written.
    """

    def __init__(self, result: SuspectKeys, folder: Path) -> None:
        self.result, self.path = result, folder / FILE
        self._items = [str(item) for item in result.items[: len(result.votes)]]
        self._verdicts: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        if self.path.is_file():
            self._verdicts |= read_verdicts(self.path)

    def rows(self) -> list[dict[str, Any]]:
        """The items of the sheet, most suspicious first, with what was decided."""
        result = self.result
        return [
            {
                "item": item,
                "question": result.questions[i] if result.questions else "",
                "key": str(result.key[i]),
                "answers": [{"text": text, "share": share} for text, share in result.votes[i].items()],
                "models": int(result.models[i]),
                "correct_key": self._verdicts.get(item, ("", ""))[0],
                "comment": self._verdicts.get(item, ("", ""))[1],
            }
            for i, item in enumerate(self._items)
        ]

    def decide(self, item: str, correct_key: str, comment: str) -> None:
        """Keep a verdict, or take it back where both texts are empty; then write the file."""
        if item not in self._items:
            raise HTTPException(400, "item must be one of the sheet.")
        with self._lock:
            if correct_key or comment:
                self._verdicts[item] = (correct_key, comment)
            else:
                self._verdicts.pop(item, None)
            files.write_text(self.path, review_sheet(self.result, self._verdicts))


def create_app(review: KeyReview, *, hosts: tuple[str, ...] = ()) -> ASGIApp:
    """Make the application.

    Args:
        review: the sheet and its verdicts.
        hosts: names that it answers to, besides this machine's own.
    """
    shell = Shell("Answer keys")

    async def page(request: Request) -> Response:
        return shell.page("key_review.html", file=str(review.path))

    async def items(request: Request) -> Response:
        return JSONResponse({"items": review.rows()})

    async def verdict(request: Request) -> Response:
        body = await read_json(request)
        texts = [
            text_of(body, name, LONGEST).strip() if body.get(name) else "" for name in ("correct_key", "comment")
        ]
        await run_in_threadpool(review.decide, text_of(body, "item", LONGEST), *texts)
        return JSONResponse({"saved": True})

    app = shell.app(
        [Route("/", page), Route("/api/items", items), Route("/api/verdict", verdict, methods=["POST"])]
    )
    return local(app, hosts)


def serve_review(suspects: SuspectKeys, folder: Path, port: int) -> None:
    """Serve the review on this machine until it is stopped; the address goes to stdout."""
    review = KeyReview(suspects, folder)
    with serving.bind("127.0.0.1", port) as listener:
        address = serving.address(listener, "127.0.0.1")
        print(f"{len(suspects.votes):,} keys to review at {address} (stop with Ctrl-C)", flush=True)
        serving.run(create_app(review), listener)
