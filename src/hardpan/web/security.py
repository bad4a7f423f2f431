"""Access and limits for any app of this package, and what is read of a request.

Sessions are signed HttpOnly cookies, one per role, with tokens and origins against cross-site posts. Limits are
requests per address and person, bytes per body, security headers, and their order.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from itsdangerous import BadData, URLSafeSerializer
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hardpan.arguments import clean_text

# A page of another site that got this machine's name to point here must not be answered.
HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server lets through.

    Attributes:
        body_bytes: largest body of a request.
        requests_per_second: of one address, in the long run; many workers may share an address.
        requests_burst: of one address, at once: a page of 48 pictures, many tabs.
        posts_per_second: of one person (ten times as many at once).
        entries_per_minute: refused links and tokens of one address.
        newcomers_per_hour: new people of one link and address.
        image_seconds: an annotator's image is answered at a multiple of this; 0 answers at once.
    """

    body_bytes: int = 65_536
    requests_per_second: float = 300.0
    requests_burst: float = 3000.0
    posts_per_second: float = 20.0
    entries_per_minute: float = 30.0
    newcomers_per_hour: float = 60.0
    image_seconds: float = 0.025


class RateLimiter:
    """A token bucket per key; the keys that were quiet longest are forgotten, so memory has a bound.

    Example:
        >>> limiter = RateLimiter(rate=1, burst=2, clock=lambda: 0.0)
        >>> [limiter.allow("a"), limiter.allow("a"), limiter.allow("a"), limiter.allow("b")]
        [True, True, False, True]
    """

    def __init__(
        self, rate: float, burst: float, *, keys: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._most, self._clock = rate, burst, keys, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def allow(self, key: str) -> bool:
        """Whether the key's bucket holds one more; if so, take it."""
        with self._lock:
            now = self._clock()
            level, then = self._buckets.pop(key, (self._burst, now))
            level = min(self._burst, level + (now - then) * self._rate)
            allowed = level >= 1.0
            self._buckets[key] = (level - 1.0 if allowed else level, now)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
            return allowed


def limit_rate(app: ASGIApp, limits: Limits) -> ASGIApp:
    """Wrap an app: 429 for an address that asks too often."""
    limiter = RateLimiter(limits.requests_per_second, limits.requests_burst)

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        answer = app
        if scope["type"] == "http" and not limiter.allow((scope.get("client") or ("",))[0]):
            answer = PlainTextResponse("Too many requests. Wait a moment.", 429, {"Retry-After": "1"})
        await answer(scope, receive, send)

    return limited


def limit_body(app: ASGIApp, limits: Limits) -> ASGIApp:
    """Wrap an app: 413 for a body over the limit, whether it says its length or not; it is never held in memory."""
    most, close = limits.body_bytes, {"Connection": "close"}
    refusal = f"The body may have at most {most} bytes."

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise HTTPException(413, refusal, headers=close)
            return message

        answer = app
        if scope["type"] == "http":
            declared = dict(scope["headers"]).get(b"content-length", b"0")
            if not declared.isdigit() or len(declared) > 12 or int(declared) > most:
                answer = PlainTextResponse(refusal, 413, close)
        await answer(scope, counted if scope["type"] == "http" else receive, send)

    return limited


# No inline script or style, nothing from elsewhere, no frame around the page, forms only to this server.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # "no-referrer" would also take the Origin away that posts are checked by
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "x-robots-tag": "noindex, nofollow",
    "cache-control": "no-store",
}


def add_security_headers(app: ASGIApp) -> ASGIApp:
    """Wrap an app: adds the headers to every answer; what says nothing about caching must not be kept."""
    always = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", []))
                present = {name for name, _ in headers}  # an answer that sets one of them keeps its own
                headers += [item for item in always if item[0] not in present]
                message = {**message, "headers": headers}
            await send(message)

        await app(scope, receive, with_headers)

    return guarded


def at_public_address(app: ASGIApp, address: str) -> ASGIApp:
    """Wrap an app: every request is one to the public address.

    A proxy speaks HTTP to this server and may replace Host, so cookies, origins and redirects follow the address
    that people type.
    """
    parts = urlsplit(address)

    async def moved(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = [item for item in scope["headers"] if item[0] != b"host"]
            scope = {**scope, "scheme": parts.scheme, "headers": [(b"host", parts.netloc.encode()), *headers]}
        await app(scope, receive, send)

    return moved


def local(app: ASGIApp, hosts: tuple[str, ...] = ()) -> ASGIApp:
    """Wrap an app for the people at this machine: it answers to this machine's names, and to ``hosts``, alone."""
    return add_security_headers(TrustedHostMiddleware(limit_body(app, Limits()), allowed_hosts=[*HOSTS, *hosts]))


def protect(app: ASGIApp, limits: Limits | None = None, address: str = "") -> ASGIApp:
    """Wrap an app: headers outermost, so that refusals have them too, then rate, then size, then the address."""
    limits = limits or Limits()
    if address:
        app = at_public_address(app, address)
    return add_security_headers(limit_rate(limit_body(app, limits), limits))


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

    ``tag`` names the person's storage in the browser; ``id`` is that of the signed-in browser.
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
        self._project = self._digest("cookie", "")[:8]

    def cookie_name(self, role: Role) -> str:
        """The name of a role's cookie in this project: browsers send cookies to every port of a host."""
        return f"hardpan-{self._project}-{role.value}"

    def open(self, response: Response, request: Request, role: Role, person: str) -> None:
        """Give the browser a session: a cookie that scripts cannot read and other roles' pages never receive."""
        ends = int(time.time()) + SESSION_SECONDS
        payload = {"p": person, "e": ends, "m": self._mark(role), "s": secrets.token_urlsafe(12)}
        response.set_cookie(
            self.cookie_name(role),
            str(self._signers[role].dumps(payload)),
            max_age=SESSION_SECONDS,
            path=f"/{role.value}",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",  # "strict" would hide it from the page that an invitation in a mail leads to
        )

    def close(self, response: Response, role: Role) -> None:
        """Remove the session's cookie."""
        response.delete_cookie(self.cookie_name(role), path=f"/{role.value}", httponly=True, samesite="lax")

    def session(self, request: Request, role: Role) -> Session | None:
        """The session that this request carries for a role, or None."""
        cookie = request.cookies.get(self.cookie_name(role), "")
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
        """The session for a role: 401 without one.

        A post from another site or without its session's token is refused (403), and one too many (429).
        """
        session = self.session(request, role)
        if session is None:
            owner = "Open the owner's link that the server printed, or make a new one: serve --new-owner-link."
            invited = "Open your invitation link to enter this page."
            raise HTTPException(401, owner if role is Role.OWNER else invited)
        if request.method not in ("GET", "HEAD"):
            check_origin(request)
            token = request.headers.get("x-csrf-token", "")
            if not (token.isascii() and hmac.compare_digest(token, session.csrf)):
                raise HTTPException(403, "This request did not come from the page. Reload the page and try again.")
            if not self._posts.allow(f"{session.role} {session.person}"):
                raise HTTPException(429, "Too many requests. Wait a moment.", headers={"Retry-After": "1"})
        return session

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


def check_origin(request: Request) -> None:
    """Refuse (403) a post that a browser says another site made."""
    foreign = request.headers.get("sec-fetch-site") not in (None, "same-origin", "none")
    origin = request.headers.get("origin")
    if origin is not None:
        try:
            foreign |= urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower()
        except ValueError:  # not an address
            foreign = True
    if foreign:
        raise HTTPException(403, "This request came from another site and was refused.")


def request_wants_json(request: Request) -> bool:
    """Whether a script is asking."""
    return "/api/" in request.url.path or "application/json" in request.headers.get("accept", "")


async def read_request_json(request: Request) -> dict[str, Any]:
    """The JSON object of a body; anything else is 400."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise HTTPException(400, "The body must be JSON.")

    def refuse(constant: str) -> None:  # NaN and Infinity are not JSON; PostgreSQL would refuse to store them
        raise ValueError(constant)

    try:
        content = json.loads(await request.body(), parse_constant=refuse)
    except (ValueError, RecursionError):
        raise HTTPException(400, "The body is not JSON.") from None
    except ClientDisconnect:  # nobody reads the answer, and it is no fault of this server
        raise HTTPException(400, "The body is not complete.") from None
    if not isinstance(content, dict):
        raise HTTPException(400, "The body must be a JSON object.")
    return content


def request_text(content: Mapping[str, Any], name: str, longest: int = 200) -> str:
    """A text of a JSON object, checked."""
    value = content.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest or clean_text(value, lines=True) != value:
        raise HTTPException(400, f"{name} must be a text of 1 to {longest} characters.")
    return value


def request_integer(content: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """A whole number of a JSON object, within bounds."""
    value = content.get(name)
    if type(value) is not int or not low <= value <= high:
        raise HTTPException(400, f"{name} must be a whole number from {low} to {high}.")
    return value


def request_flag(content: Mapping[str, Any], name: str) -> bool:
    """True or false of a JSON object."""
    value = content.get(name)
    if not isinstance(value, bool):
        raise HTTPException(400, f"{name} must be true or false.")
    return value


def request_texts(content: Mapping[str, Any], name: str, most: int) -> list[str]:
    """A list of different texts of a JSON object."""
    value = content.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise HTTPException(400, f"{name} must be a list of at most {most} texts.")
    texts = [request_text({name: item}, name) for item in value]
    if len(set(texts)) != len(texts):
        raise HTTPException(400, f"{name} must not repeat.")
    return texts
