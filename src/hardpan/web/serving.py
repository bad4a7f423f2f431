"""A socket that says when it is taken, and a server that stops gracefully."""

from __future__ import annotations

import errno
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from hardpan.errors import InputError, MissingExtra


def bind(host: str, port: int) -> socket.socket:
    """Take an address before anything else is done; one that is busy is refused in one sentence.

    Example:
        >>> taken = bind("127.0.0.1", 0)
        >>> bind("127.0.0.1", taken.getsockname()[1])  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        hardpan.errors.InputError: --port ... is in use on 127.0.0.1; give another one ...
        >>> taken.close()
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise InputError(f"--host {host!r} is no address of this machine; give 127.0.0.1 or 0.0.0.0") from None
    taken = socket.socket(family, kind, protocol)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(address)
        taken.listen(256)  # two sockets may share a bound port until one listens
    except OSError as error:
        taken.close()
        if error.errno == errno.EADDRINUSE:
            remedy = f"give another one (--port {port + 1}) or stop the other server"
            raise InputError(f"--port {port} is in use on {host}; {remedy}") from None
        if error.errno == errno.EACCES:
            raise InputError(f"--port {port} needs rights that you lack; give one from 1024 up") from None
        raise InputError(f"--host {host!r} is no address of this machine; give 127.0.0.1 or 0.0.0.0") from None
    return taken


def run(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM; requests under way are answered first (at most ten seconds)."""
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("uvicorn", "web") from None
    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses of invitations would end up in logs
        server_header=False,
        timeout_graceful_shutdown=10,
        proxy_headers=True,
        lifespan="on",
        backlog=1024,
    )
    with _stopping_is_no_failure():
        uvicorn.Server(settings).run(sockets=[listener])


@contextmanager
def _stopping_is_no_failure() -> Iterator[None]:
    """uvicorn raises the signal that stopped it once more at its end; here that is how a server ends well."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def address(listener: socket.socket, host: str) -> str:
    """The address that people type; a server that listens everywhere is named by this machine's name."""
    port = listener.getsockname()[1]
    shown = socket.gethostname() if host in ("", "0.0.0.0", "::") else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
