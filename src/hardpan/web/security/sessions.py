"""Sessions: one HttpOnly cookie per role, sent to that role's pages only, and tokens for posts."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from itsdangerous import BadData, URLSafeSerializer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hardpan.web.security.limits import RateLimiter

SESSION_SECONDS = 30 * 86_400
LONGEST = 2048


class Role(StrEnum):
    """A part of the site and the people who may enter it; its value is the first part of the path."""

    ANNOTATOR = "annotate"
    SELECTOR = "select"
    REVIEWER = "review"
    PARTICIPANT = "people"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Session:
    """The person and role of a request, and the token that their posts must carry.

    ``tag`` names the person's storage in the browser; ``id`` names this session.
    """

    role: Role
    person: str
    csrf: str
    tag: str
    id: str


class Gate:
    """Gives and checks sessions, signed with one secret.

    Args:
        secret: the key; what it signed before a restart stays valid.
        owner_mark: changes when the owner's token does, which ends the sessions of the old one.
        posts_per_second: of one person; ten times as many at once.
    """

    def __init__(self, secret: bytes, owner_mark: Callable[[], str], posts_per_second: float = 20.0) -> None:
        self._secret, self._owner_mark = secret, owner_mark
        self._posts = RateLimiter(posts_per_second, 10 * posts_per_second)
        self._signers = {role: signer(secret, f"session-{role.value}") for role in Role}

    def open(self, response: Response, request: Request, role: Role, person: str) -> None:
        """Give the browser a session: a cookie that scripts cannot read and other roles' pages never receive."""
        ends = int(time.time()) + SESSION_SECONDS
        payload = {"p": person, "e": ends, "m": self._mark(role), "s": secrets.token_urlsafe(12)}
        response.set_cookie(
            f"hardpan-{role.value}",
            str(self._signers[role].dumps(payload)),
            max_age=SESSION_SECONDS,
            path=f"/{role.value}",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",  # "strict" would hide it from the page that an invitation in a mail leads to
        )

    def close(self, response: Response, role: Role) -> None:
        """Remove the session's cookie."""
        response.delete_cookie(f"hardpan-{role.value}", path=f"/{role.value}", httponly=True, samesite="lax")

    def session(self, request: Request, role: Role) -> Session | None:
        """The session that this request carries for a role, or None."""
        cookie = request.cookies.get(f"hardpan-{role.value}", "")
        if len(cookie) > LONGEST or not cookie.isascii():
            return None
        try:
            payload = self._signers[role].loads(cookie)
            person, ends, mark, name = (payload[key] for key in "pems")
        except (BadData, KeyError, TypeError):
            return None
        if ends < time.time() or mark != self._mark(role):
            return None
        # Bound to the person, not to one cookie: a second tab that entered again leaves the first one working.
        csrf = self._digest(f"csrf-{role.value}", person)[:32]
        return Session(role, person, csrf, self._digest("tag", f"{role.value} {person}")[:12], name)

    def require(self, request: Request, role: Role) -> Session:
        """The session for a role: 401 without one; a post by a script must carry the session's token."""
        session = self.session(request, role)
        if session is None:
            raise HTTPException(401, _ENTER.get(role, _INVITED))
        if request.method not in ("GET", "HEAD"):
            self.check_post(request, session, request.headers.get("x-csrf-token"))
        return session

    def check_post(self, request: Request, session: Session, token: object) -> None:
        """Refuse a post from another site (403), without its session's token (403), or one too many (429)."""
        check_origin(request)
        if not (isinstance(token, str) and token.isascii() and hmac.compare_digest(token, session.csrf)):
            raise HTTPException(403, "This request did not come from the page. Reload the page and try again.")
        if not self._posts.allow(f"{session.role} {session.person}"):
            raise HTTPException(429, "Too many requests. Wait a moment.", headers={"Retry-After": "1"})

    def _mark(self, role: Role) -> str:
        return self._digest("mark", self._owner_mark())[:12] if role is Role.OWNER else ""

    def _digest(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()


def signer(secret: bytes, purpose: str) -> URLSafeSerializer:
    """Signs JSON values for one purpose: what is signed for one is invalid for another.

    Example:
        >>> text = signer(b"k" * 32, "session").dumps({"p": "w1"})
        >>> signer(b"k" * 32, "session").loads(text)
        {'p': 'w1'}
    """
    options = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
    return URLSafeSerializer(secret, salt=purpose, signer_kwargs=options)


_INVITED = "Open your invitation link to enter this page."
_ENTER = {Role.OWNER: "Open the owner's link that the server printed, or make a new one: serve --new-owner-link."}


def check_origin(request: Request) -> None:
    """Refuse (403) a post that a browser says another site made."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    foreign = site not in (None, "same-origin", "none")
    if origin is not None:
        foreign = foreign or _host(origin) != request.headers.get("host", "").lower()
    if foreign:
        raise HTTPException(403, "This request came from another site and was refused.")


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
