"""Sessions: an HttpOnly cookie a role that only its own part of the site receives, and tokens for posts."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hardpan.web.security.limits import RateLimiter
from hardpan.web.security.signing import digest, sign, unsign

SESSION_SECONDS = 30 * 86_400


class Role(StrEnum):
    """A part of the site and the people who may enter it; its value is the first part of the path."""

    ANNOTATOR = "annotate"
    SELECTOR = "select"
    REVIEWER = "review"
    PARTICIPANT = "people"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Session:
    """Who is asking, in which role, and the token that their posts must carry."""

    role: Role
    person: str
    csrf: str
    tag: str  # names the person's drawer in the browser's storage; tells nothing else


class Gate:
    """Gives and checks sessions, signed with one secret.

    Args:
        secret: the key; what it signed before a restart stays good.
        owner_mark: changes when the owner's token does, which ends the sessions of the old one.
        posts_per_second: of one person; ten times as many at once.
    """

    def __init__(self, secret: bytes, owner_mark: Callable[[], str], posts_per_second: float = 20.0) -> None:
        self._secret, self._owner_mark = secret, owner_mark
        self._posts = RateLimiter(posts_per_second, 10 * posts_per_second)

    def open(self, response: Response, request: Request, role: Role, person: str) -> None:
        """Give the browser a session: a cookie that scripts cannot read and other roles' pages never receive."""
        payload = {"p": person, "e": int(time.time()) + SESSION_SECONDS, "m": self._mark(role)}
        response.set_cookie(
            f"hardpan-{role.value}",
            sign(self._secret, f"session-{role.value}", payload),
            max_age=SESSION_SECONDS,
            path=f"/{role.value}",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",  # "strict" would hide it from the page that an invitation in a mail leads to
        )

    def close(self, response: Response, role: Role) -> None:
        """Take the session back."""
        response.delete_cookie(f"hardpan-{role.value}", path=f"/{role.value}", httponly=True, samesite="lax")

    def session(self, request: Request, role: Role) -> Session | None:
        """The session that this request carries for a role, or None."""
        cookie = request.cookies.get(f"hardpan-{role.value}", "")
        payload = unsign(self._secret, f"session-{role.value}", cookie)
        if payload is None or payload["e"] < time.time() or payload["m"] != self._mark(role):
            return None
        person = str(payload["p"])
        # Bound to the person, not to one cookie: a second tab that entered again leaves the first one working.
        csrf = digest(self._secret, f"csrf-{role.value}", person).hex()[:32]
        return Session(role, person, csrf, digest(self._secret, "tag", f"{role.value} {person}").hex()[:12])

    def require(self, request: Request, role: Role) -> Session:
        """The session for a role: 401 without one; a post by a script must carry the session's token."""
        session = self.session(request, role)
        if session is None:
            raise HTTPException(401, _ENTER.get(role, _INVITED))
        if request.method not in ("GET", "HEAD"):
            self.check_post(request, session, request.headers.get("x-csrf-token"))
        return session

    def check_post(self, request: Request, session: Session, token: object) -> None:
        """Refuse a post from elsewhere (403), without its session's token (403), or one too many (429)."""
        check_origin(request)
        if not (isinstance(token, str) and token.isascii() and hmac.compare_digest(token, session.csrf)):
            raise HTTPException(403, "This request did not come from the page. Reload the page and try again.")
        if not self._posts.allow(f"{session.role} {session.person}"):
            raise HTTPException(429, "That was too fast. Wait a moment.", headers={"Retry-After": "1"})

    def _mark(self, role: Role) -> str:
        return digest(self._secret, "mark", self._owner_mark()).hex()[:12] if role is Role.OWNER else ""


_INVITED = "Open the invitation link that you were given to enter this page."
_ENTER = {
    Role.OWNER: "Open the owner's link that the server printed, or ask for a new one: serve --new-owner-link."
}


def check_origin(request: Request) -> None:
    """Refuse (403) a post that a browser says another site made."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    foreign = site not in (None, "same-origin", "none")
    if origin is not None:
        foreign = foreign or _host(origin) != request.headers.get("host", "").lower()
    if foreign:
        raise HTTPException(403, "This request came from another site, and was not done.")


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
