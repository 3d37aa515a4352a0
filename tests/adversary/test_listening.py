"""TLS and Unix sockets: what is promised of plain connections holds there, too."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess

import httpx2
import pytest
from tests.adversary.test_connections import connected, seconds_until_closed
from tests.refusals import refuses
from tests.serve.conftest import serving
from tests.serve.test_server import gated, until

from throughtime.errors import ThroughtimeError
from throughtime.serve.requests import Options
from throughtime.serve.server import listen_unix, load_tls


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """Two certificates with their keys."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    folder = tmp_path_factory.mktemp("pem")
    for name in ("one", "two"):
        made = ["-x509", "-nodes", "-days", "2", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        place = ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem", "-subj", "/CN=localhost"]
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        subprocess.run(["openssl", "req", *made, *place, *names], check=True, capture_output=True)
    return folder


def test_https_answers_and_gives_up_silent_handshakes(pem, capfd):
    options = Options(header_timeout=0.6, max_connections=20)
    with serving(gated()[1], options, tls=load_tls(pem / "one.pem", pem / "one.key")) as (_, address):
        assert address.startswith("https://127.0.0.1:")
        plain = address.replace("https", "http")
        with connected(plain) as silent, connected(plain) as confused:
            confused.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            trust = ssl.create_default_context(cafile=str(pem / "one.pem"))
            assert 0.3 < seconds_until_closed(silent) < 8
            assert seconds_until_closed(confused) < 8
            lines = [connected(plain) for _ in range(60)]  # more than there may be
            for _ in range(2):
                assert f"{address}/translate" in httpx2.get(f"{address}/docs", verify=trust).text
            for line in lines:
                line.close()
    assert capfd.readouterr().err == ""


def client_hello():
    """What a client sends first, and an object that could go on."""
    sent, context = ssl.MemoryBIO(), ssl.create_default_context()
    handshake = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        handshake.do_handshake()
    return sent.read()


def test_a_flood_of_handshakes_keeps_nobody_out(pem, capfd):
    options = Options(header_timeout=2.0, max_connections=20)
    trust = ssl.create_default_context(cafile=str(pem / "one.pem"))
    tls = load_tls(pem / "one.pem", pem / "one.key")
    with serving(gated()[1], options, tls=tls) as (server, address), contextlib.ExitStack() as opened:
        plain, hello = address.replace("https", "http"), client_hello()
        for number in range(120):
            line = opened.enter_context(connected(plain))
            with contextlib.suppress(OSError):
                match number % 4:
                    case 0:  # the costly half, and then silence
                        line.sendall(hello)
                    case 1:
                        line.sendall(hello[: number + 1])
                    case 2:
                        line.sendall(hello + hello)
                    case 3:  # a whole one, and nothing else
                        opened.enter_context(trust.wrap_socket(line, server_hostname="localhost"))
            if number % 20 == 19:
                assert httpx2.get(f"{address}/health", verify=trust, timeout=10).status_code == 200
            assert len(server.connections._slots) <= 20
        until(lambda: not server.connections._slots, 10)  # all are given up
    assert capfd.readouterr().err == ""


def test_what_is_no_certificate_with_its_key_is_refused(pem, tmp_path):
    with refuses("tls_cert", "none.pem"):
        load_tls(tmp_path / "none.pem")
    with refuses("tls_key", "two.key", "one.pem"):
        load_tls(pem / "one.pem", pem / "two.key")
    with refuses("tls_cert", "one.key"):
        load_tls(pem / "one.key", pem / "one.pem")
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", pem / "one.key", "-aes128", "-passout", "pass:word", "-out", locked]
    subprocess.run(command, check=True, capture_output=True)
    with refuses("tls_cert", "locked.key"):
        load_tls(pem / "one.pem", locked)


def test_a_unix_socket_serves_its_user_and_leaves_no_file(tmp_path):
    path = tmp_path / "a.sock"
    killed = socket.socket(socket.AF_UNIX)
    killed.bind(str(path))
    killed.close()  # as by SIGKILL: the file stays
    with serving(gated()[1], Options(max_connections_per_client=1), unix_socket=path) as (_, address):
        assert path.stat().st_mode & 0o777 == 0o660
        with refuses(path, error=ThroughtimeError):
            listen_unix(path)
        silent = socket.socket(socket.AF_UNIX)
        silent.connect(str(path))  # not of one client: nobody can tell
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), base_url=address) as client:
            assert client.post("/classify", json={"q": "a"}).status_code == 200
            assert client.get("/health", headers={"Host": "attacker.example"}).status_code == 421
        silent.settimeout(0.2)
        with pytest.raises(TimeoutError):
            silent.recv(1)
        silent.close()
    assert not path.exists()


def test_a_file_that_is_no_socket_is_kept(tmp_path):
    (tmp_path / "notes").write_text("mine")
    with refuses("unix_socket", "notes"):
        listen_unix(tmp_path / "notes")
    with refuses("unix_socket"):
        listen_unix(tmp_path / ("x" * 200))
    assert (tmp_path / "notes").read_text() == "mine"
