"""The order in which a request passes the guards."""

from __future__ import annotations

from starlette.types import ASGIApp

from hardpan.web.security.headers import SecurityHeaders
from hardpan.web.security.limits import BodyLimit, Limits, RateLimit


def protect(app: ASGIApp, limits: Limits | None = None) -> ASGIApp:
    """Wrap an app: headers outermost, so that refusals carry them too, then rate, then size."""
    limits = limits or Limits()
    return SecurityHeaders(RateLimit(BodyLimit(app, limits), limits))
