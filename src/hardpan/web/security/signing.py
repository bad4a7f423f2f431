"""Texts with a signature that has one spelling, one purpose and one key."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

LONGEST = 2048


def digest(secret: bytes, purpose: str, text: str) -> bytes:
    """HMAC-SHA256 of a text for one purpose: what is signed for one is worth nothing for another."""
    message = purpose.encode() + b"\0" + text.encode("utf-8", "surrogatepass")
    return hmac.digest(secret, message, hashlib.sha256)


def sign(secret: bytes, purpose: str, payload: Mapping[str, Any]) -> str:
    """Give a payload of plain JSON values as text with its signature, fit for links and cookies.

    Example:
        >>> text = sign(b"k" * 32, "session", {"p": "w1"})
        >>> unsign(b"k" * 32, "session", text)
        {'p': 'w1'}
        >>> unsign(b"k" * 32, "invitation", text) is None
        True
    """
    body = _encode(json.dumps(payload, separators=(",", ":"), sort_keys=True).encode())
    return f"{body}.{_encode(digest(secret, purpose, body)[:18])}"


def unsign(secret: bytes, purpose: str, text: str) -> dict[str, Any] | None:
    """The payload of a signed text, or None for anything that was not signed here for this purpose."""
    if len(text) > LONGEST or not text.isascii():
        return None
    body, dot, signature = text.partition(".")
    # The signature is compared as it is spelled, so no second spelling of the same bytes passes.
    expected = _encode(digest(secret, purpose, body)[:18])
    if not dot or not hmac.compare_digest(signature, expected):
        return None
    payload = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return payload if isinstance(payload, dict) else None


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
