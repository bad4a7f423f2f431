"""Who may do what, and how much: signatures, sessions, limits and headers, for any app of this package.

- ``signing``: texts with an HMAC; a signature has one spelling, one purpose and one key;
- ``sessions``: an HttpOnly cookie a role; tokens and origins against cross-site posts;
- ``limits``: requests per address and person, bytes per body;
- ``headers``: a content-security policy without exceptions, and its companions;
- ``protection``: the order in which a request passes them.
"""

from hardpan.web.security.limits import Limits, RateLimiter
from hardpan.web.security.protection import protect
from hardpan.web.security.sessions import Gate, Role, Session, check_origin

__all__ = ["Gate", "Limits", "RateLimiter", "Role", "Session", "check_origin", "protect"]
