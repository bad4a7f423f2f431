"""The annotation server behind nginx, with the configuration of the documentation."""

import contextlib
import re
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from tests.web import load, small

DOCUMENT = Path(__file__).parents[2] / "docs" / "commands" / "replicate-serve.md"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def nginx(folder, port, upstream, more):
    """A running nginx with the documented ``server`` block, its names and ports replaced."""
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("no nginx here: put nginx and openssl on the PATH to run these tests")
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*make.split(), *names], cwd=folder, check=True, capture_output=True)
    block = re.search(r"```nginx\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[1]
    for documented, here in [
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/label.example.org.pem", str(folder / "cert.pem")),
        ("/etc/ssl/label.example.org.key", str(folder / "key.pem")),
        ("label.example.org", "localhost"),
        ("http://127.0.0.1:8000;", f"http://127.0.0.1:{upstream};{more}"),
    ]:
        assert documented in block
        block = block.replace(documented, here)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "\n".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off;\npid {folder / 'pid'};\nerror_log {folder / 'error.log'};\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}\n{block}\n}}\n"
    )
    command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        assert process.poll() is None, process.stderr.read()
        yield
    finally:
        process.terminate()
        process.communicate(timeout=30)


def browser(folder, base, at="127.0.0.1"):
    """Someone with a browser at an address of their own, who trusts the proxy's certificate."""
    trust = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    headers = {"Origin": base, "Sec-Fetch-Site": "same-origin"}
    route = httpx.HTTPTransport(verify=trust, local_address=at)
    return httpx.Client(base_url=base, headers=headers, transport=route, timeout=60)


@pytest.mark.parametrize("more", ["", "proxy_set_header Host $host;", "proxy_set_header X-Forwarded-Proto http;"])
def test_the_documented_proxy(tmp_path, more):
    project, _ = small.copy(tmp_path / "project", "")
    project.close()
    port, upstream = free_port(), free_port()
    base = f"https://localhost:{port}"
    options = ("--address", base, "--set", "trusted_proxy=127.0.0.1")
    with nginx(tmp_path, port, upstream, more):
        server = load.Server(tmp_path / "project", port=upstream, options=options)
        try:
            with browser(tmp_path, base) as worker, browser(tmp_path, base, "127.0.0.2") as guesser:
                check(base, server, worker, guesser)
        finally:
            assert server.stop() == 0


def check(base, server, worker, guesser):
    assert server.address == base
    entered = worker.get(server.link)
    assert entered.status_code == 303
    assert "; secure" in entered.headers["set-cookie"].lower()
    page = worker.get(entered.headers["location"])
    csrf = re.search(r'name="csrf" content="(\w+)"', page.text)[1]

    def task(**headers):
        headers = {"X-CSRF-Token": csrf} | headers
        return worker.post("/annotate/api/task", json={"besides": []}, headers=headers).status_code

    assert task() == 200
    assert task(Origin="https://evil.example") == task(Origin="http://127.0.0.1:8000") == 403
    assert worker.get("/annotate").headers.get("location", base).startswith(base)

    def enter(person, token, **headers):
        return person.post("/owner/api/enter", json={"token": token}, headers=headers).status_code

    # The proxy replaces an X-Forwarded-For that somebody sends.
    assert [enter(guesser, "guess", **{"X-Forwarded-For": f"192.0.2.{k}"}) for k in range(40)][-1] == 429
    assert enter(worker, "guess") == 403  # another address
    assert enter(guesser, re.search(r"/owner/enter#(\S+)", server.said)[1]) == 200
