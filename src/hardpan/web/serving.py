"""A socket whose address must be free, and a server that stops gracefully."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import signal
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from hardpan.errors import InputError, MissingExtra

REQUEST_SECONDS = 10.0
MOST_CONNECTIONS = 1000


def bind(host: str, port: int) -> socket.socket:
    """Take an address before anything else is done; one that is busy is refused in one sentence.

    Example:
        >>> listener = bind("127.0.0.1", 0)
        >>> bind("127.0.0.1", listener.getsockname()[1])  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        hardpan.errors.InputError: --port ... is in use on 127.0.0.1; give another one ...
        >>> listener.close()
    """
    if not 0 <= port <= 65535:  # the system would take another one, modulo 65536
        raise InputError(f"must be a number from 0 to 65535; got {port}", argument="port")
    not_local = InputError(f"--host {host!r} is not an address of this machine; give 127.0.0.1 or 0.0.0.0")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise not_local from None
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(256)  # two sockets may share a bound port until one listens
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            remedy = f"give another one (--port {port + 1}) or stop the other server"
            raise InputError(f"--port {port} is in use on {host}; {remedy}") from None
        if error.errno == errno.EACCES:
            raise InputError(f"--port {port} needs rights that you lack; give one from 1024 up") from None
        raise not_local from None
    return listener


def run(app: ASGIApp, listener: socket.socket, *, trusted_proxy: str = "") -> None:
    """Serve until Ctrl-C or SIGTERM; requests under way are answered first (at most ten seconds).

    ``trusted_proxy`` is the only address whose X-Forwarded-For and X-Forwarded-Proto are believed.
    """
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("uvicorn", "web") from None
    settings = uvicorn.Config(
        app,
        http=limited_protocol(),
        limit_concurrency=MOST_CONNECTIONS,
        log_level="warning",
        access_log=False,  # addresses of invitations would end up in logs
        server_header=False,
        timeout_graceful_shutdown=10,
        proxy_headers=bool(trusted_proxy),
        forwarded_allow_ips=trusted_proxy or None,
        lifespan="on",
        backlog=1024,
    )
    # uvicorn raises the signal that stopped it once more at its end; here that is how a server ends well.
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, lambda *_: None) for number in signals}
    try:
        uvicorn.Server(settings).run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def limited_protocol() -> type[Any]:
    """uvicorn's protocol, which also closes a connection that sends no whole request within ten seconds."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class LimitedProtocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            state = self.conn.their_state
            if state is h11.SEND_BODY or (state is h11.IDLE and self.conn.trailing_data[0]):
                if self._deadline is None:  # the beginning of another request on a connection that was kept
                    self._watch()
            else:
                self._stop_watching()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_watching()
            super().connection_lost(exc)

        def _watch(self) -> None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self._too_slow)

        def _stop_watching(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _too_slow(self) -> None:
            self._deadline = None
            if not self.transport.is_closing():
                self.transport.close()

    return LimitedProtocol


def address(listener: socket.socket, host: str) -> str:
    """The address that people type; a server that listens everywhere is named by this machine's name."""
    port = listener.getsockname()[1]
    name = socket.gethostname() if host in ("", "0.0.0.0", "::") else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def public_address(text: str) -> str:
    """The address that people type, written as browsers write it in ``Origin``.

    Example:
        >>> public_address("https://Label.example.org:443/"), public_address("http://10.0.0.5:8000")
        ('https://label.example.org', 'http://10.0.0.5:8000')
    """
    refused = InputError(
        f"must begin with https:// or http:// and name a host, without a path; got {text!r}", argument="address"
    )
    try:
        parts = urlsplit(text)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:  # also of a port or name that cannot be
        raise refused from None
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise refused
    if parts.path not in ("", "/") or parts.query or parts.fragment or not host.isprintable() or " " in host:
        raise refused
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + (
        "" if port in (None, {"http": 80, "https": 443}[parts.scheme]) else f":{port}"
    )


def exposure(listener: socket.socket, address: str, trusted_proxy: str) -> list[str]:
    """What the owner of a server should know about who can reach it, and as whom it sees them."""
    warnings = []
    host = listener.getsockname()[0]
    if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
        warnings.append(
            f"--host {host} answers other machines without encryption: links and answers can be read on the way; "
            "listen on 127.0.0.1 behind a proxy with TLS, or let the proxy alone reach the port"
        )
    if address.startswith("https://") and not trusted_proxy:
        warnings.append(
            "--address without --set trusted_proxy=IP: all people count as one address in the limits per address; "
            "give the proxy's address (127.0.0.1 on this machine)"
        )
    return warnings
