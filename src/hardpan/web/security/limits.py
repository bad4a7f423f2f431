"""How much one address or person may ask for, and the headers of every answer."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
        >>> limiter.allow("b", cost=0), limiter.allow("b"), limiter.allow("b", cost=0)
        (True, True, False)
    """

    def __init__(
        self, rate: float, burst: float, *, keys: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._most, self._clock = rate, burst, keys, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def allow(self, key: str, cost: float = 1.0) -> bool:
        """Whether the key's bucket holds one more; if so, take ``cost`` from it (0: only look)."""
        with self._lock:
            now = self._clock()
            level, then = self._buckets.pop(key, (self._burst, now))
            level = min(self._burst, level + (now - then) * self._rate)
            allowed = level >= 1.0
            self._buckets[key] = (level - cost if allowed else level, now)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
            return allowed


class RateLimit:
    """Middleware: 429 for an address that asks too often."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limiter = RateLimiter(limits.requests_per_second, limits.requests_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            client = scope.get("client")
            if not self._limiter.allow(client[0] if client else ""):
                refusal = PlainTextResponse("Too many requests. Wait a moment.", 429, {"Retry-After": "1"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


class BodyLimit:
    """Middleware: 413 for a body over the limit, whether it says its length or not; it is never held in memory."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._most = app, limits.body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 12 or int(declared) > self._most:
            await self._refuse(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._most:
                raise HTTPException(413, self._text(), headers={"Connection": "close"})
            return message

        await self._app(scope, counted, send)

    def _text(self) -> str:
        return f"The body may have at most {self._most} bytes."

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(self._text(), 413, {"Connection": "close"})(scope, receive, send)


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
}


class SecurityHeaders:
    """Middleware: adds the headers to every answer; what says nothing about caching must not be kept."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._always = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", []))
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                present = {name for name, _ in headers}  # an answer that sets one of them keeps its own
                headers += [item for item in self._always if item[0] not in present]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, with_headers)


def local(app: ASGIApp, hosts: tuple[str, ...] = ()) -> ASGIApp:
    """Wrap an app for the people at this machine: it answers to this machine's names, and to ``hosts``, alone."""
    return SecurityHeaders(TrustedHostMiddleware(BodyLimit(app, Limits()), allowed_hosts=[*HOSTS, *hosts]))


def protect(app: ASGIApp, limits: Limits | None = None) -> ASGIApp:
    """Wrap an app: headers outermost, so that refusals have them too, then rate, then size."""
    limits = limits or Limits()
    return SecurityHeaders(RateLimit(BodyLimit(app, limits), limits))
