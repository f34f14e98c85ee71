"""TLS handshakes with servers of many kinds: what curl and browsers get, we get; the rest is `tls`.

The certificates in instances/tls are for a.example and *.wild.example. An intermediate authority
has signed them, and `root.pem` the intermediate.
"""

import contextlib
import gc
import os
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from servers import RawServer
from test_net import OK, get

from crawler import config
from crawler.net.tls import make_context
from crawler.ports import Failure, FetchError

PAGE = OK + b"Content-Length: 2\r\nConnection: close\r\n\r\nhi"
FILES = Path(__file__).parent / "instances" / "tls"


def server_of(pem: str) -> RawServer:
    server = RawServer(PAGE, tls=True)
    server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.tls.load_cert_chain(FILES / f"{pem}.pem")
    return server


def outcome(server: RawServer, host: str = "a.example", **settings: object) -> object:
    """The status, or why there is none."""
    trusted = {"ca_files": [str(FILES / "root.pem")]} | settings
    with server:
        url = f"https://{host}:{server.port}/"
        try:
            return get(url, {host.rstrip("."): "127.0.0.1"}, **trusted).status
        except FetchError as error:
            print(error)  # a test that fails shows it
            return error.failure


# OpenSSL's names.
FORWARD_SECRET = [
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-RSA-AES256-SHA384",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-RSA-AES256-SHA",
]
OTHERS = [
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA256",
    "AES256-SHA256",
    "AES128-SHA",
    "AES256-SHA",
]


@pytest.mark.parametrize("suite", [*FORWARD_SECRET, *OTHERS])
def test_suites_that_curl_and_browsers_offer(suite: str) -> None:
    server = server_of("rsa")
    assert server.tls is not None
    server.tls.maximum_version = ssl.TLSVersion.TLSv1_2
    server.tls.set_ciphers(suite)
    assert outcome(server) == 200


@pytest.mark.skipif(shutil.which("openssl") is None, reason="compares with the openssl program")
def test_suites_are_those_of_openssl() -> None:
    words = ["openssl", "ciphers", "-s", "-tls1_2", "DEFAULT"]
    theirs = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    ours = {suite["name"] for suite in make_context(config.Fetch()).get_ciphers()}
    assert {name for name in theirs.strip().split(":") if "CCM" not in name} <= ours


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(version: ssl.TLSVersion) -> None:
    server = server_of("chain")
    assert server.tls is not None
    server.tls.minimum_version = server.tls.maximum_version = version
    assert outcome(server) == 200


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_are_refused_as_by_browsers() -> None:
    server = server_of("rsa")
    assert server.tls is not None
    server.tls.set_ciphers("DEFAULT:@SECLEVEL=0")
    server.tls.minimum_version = ssl.TLSVersion.TLSv1
    server.tls.maximum_version = ssl.TLSVersion.TLSv1_1
    assert outcome(server) is Failure.TLS


@pytest.mark.parametrize(
    ("pem", "host", "expected"),
    [
        ("chain", "a.example", 200),
        ("chain", "a.example.", 200),
        ("chain", "b.wild.example", 200),
        ("chain", "wild.example", Failure.TLS),
        ("chain", "c.b.wild.example", Failure.TLS),
        ("chain", "b.example", Failure.TLS),
        ("chain", "127.0.0.1", Failure.TLS),
        ("incomplete", "a.example", Failure.TLS),  # no intermediate
        ("expired", "a.example", Failure.TLS),
        ("early", "a.example", Failure.TLS),  # not valid yet
        ("self-signed", "a.example", Failure.TLS),
    ],
)
def test_certificates(pem: str, host: str, expected: object) -> None:
    assert outcome(server_of(pem), host) == expected
    assert outcome(server_of(pem), host, verify_tls=False) == 200


@pytest.mark.parametrize(
    ("pem", "trusted"),
    [
        ("incomplete", "intermediate"),  # what the server forgot, and no root
        ("self-signed", "self-signed"),
        ("chain", "incomplete"),  # the certificate of the server itself
    ],
)
def test_trust_in_a_part_of_a_chain_is_enough(pem: str, trusted: str) -> None:
    assert outcome(server_of(pem), ca_files=[str(FILES / f"{trusted}.pem")]) == 200
    assert outcome(server_of(pem), ca_files=[]) is Failure.TLS


@pytest.mark.parametrize("host", ["a.example", "a.example.", "127.0.0.1"])
def test_server_name_is_without_a_dot_and_no_address(host: str) -> None:
    server, names = server_of("chain"), list[str | None]()
    assert server.tls is not None
    server.tls.sni_callback = lambda _, name, __: names.append(name)
    assert outcome(server, host, verify_tls=False) == 200
    assert names == [None if host[0].isdigit() else "a.example"]


@pytest.mark.parametrize("offered", [["http/1.1"], ["h2", "http/1.1"], []])
def test_protocol_is_agreed_on(offered: list[str]) -> None:
    server = server_of("chain")
    assert server.tls is not None
    if offered:
        server.tls.set_alpn_protocols(offered)
    assert outcome(server) == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (f"{'x' * 64}.example", Failure.BAD_URL),
        (f"{'x.' * 130}example", Failure.BAD_URL),
        (f"{'x.' * 124}example", Failure.TLS),  # 255 characters
        (f"{'x.' * 124}examples", Failure.BAD_URL),
        ("a_b.example", Failure.TLS),
        ("a..example", Failure.BAD_URL),
        (".a.example", Failure.BAD_URL),
    ],
)
def test_odd_names_end_in_an_error_class(host: str, expected: Failure) -> None:
    assert outcome(server_of("chain"), host) is expected
    assert not sockets_without_descriptor()


def sockets_without_descriptor() -> list[socket.socket]:
    """Sockets whose descriptors something else has closed: they will close those of others."""
    found = []
    for one in gc.get_objects():
        # isinstance would fail at a weak proxy whose object is gone
        if issubclass(type(one), socket.socket) and one.fileno() >= 0:
            try:
                os.fstat(one.fileno())
            except OSError:
                found.append(one)
    return found


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x28",  # an alert: handshake failure
        b"\x15\x03\x03\x00\x02\x02\x70",  # an alert: unrecognised name
        b"\x16\x03\x03\x40\x00" + bytes(100),  # and the record never ends
        b"",
        bytes(1000),
    ],
)
def test_a_broken_handshake_ends_in_an_error_class(answer: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1 << 16)

    server = RawServer(serve)
    cut_short = not answer or answer.startswith(b"\x16")
    assert outcome(server, timeout_s=5) is (Failure.DISCONNECTED if cut_short else Failure.TLS)


def test_python_is_no_stricter_than_curl() -> None:
    context = make_context(config.Fetch())
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_servers_that_cant_renegotiate_safely_are_asked() -> None:
    """OpenSSL 3 leaves such servers by default; browsers don't (RFC 5746, 4.4)."""
    assert make_context(config.Fetch()).options & 0x4  # OP_LEGACY_SERVER_CONNECT of Python 3.12


def test_a_file_of_the_system_without_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL ignores such a file. Then no server is trusted."""
    (tmp_path / "none.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert make_context(config.Fetch()).cert_store_stats()["x509"] == 0
