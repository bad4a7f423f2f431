"""Access and limits for any app of this package.

- ``sessions``: signed HttpOnly cookies, one per role; tokens and origins against cross-site posts;
- ``limits``: requests per address and person, bytes per body, security headers, and their order.
"""

from hardpan.web.security.limits import Limits, RateLimiter, protect
from hardpan.web.security.sessions import Gate, Role, Session, check_origin

__all__ = ["Gate", "Limits", "RateLimiter", "Role", "Session", "check_origin", "protect"]
