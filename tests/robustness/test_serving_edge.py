"""The edge of a server: connections, broken and slow clients, other origins, keys, and what is logged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from harken.serving.app import create_app
from harken.serving.limits import hosts_of
from harken.serving.settings import ServerSettings
from harken.serving.transport import BoundedConnections, HttpConfig, HttpProtocol

from ..serving.conftest import CapitalEngine

SECRET = "squirrel"
BODY = b'{"text": "the cat"}'
POST = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class H11(BoundedConnections, H11Protocol):  # type: ignore[misc]
    """The protocol where httptools is not installed."""


@pytest.fixture(params=[HttpProtocol, H11], ids=["httptools", "h11"])
def protocol(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def app_of(tiny_model: Callable[[str], Path], tmp_path: Path) -> Callable[..., Any]:
    """Makes the app of a server that translates into capitals."""

    def make(engine: CapitalEngine | None = None, **settings: Any) -> Any:
        settings = {"allowed_hosts": hosts_of("127.0.0.1"), "state": tmp_path / "state"} | settings
        app = create_app([tiny_model("phrasebook-transformer")], ServerSettings(**settings))
        app.state.serving.engine = engine or CapitalEngine()
        return app

    return make


@contextlib.contextmanager
def listening(app: Any, protocol: Any = HttpProtocol) -> Iterator[tuple[str, int]]:
    """The app on a free port, with the connections of `harken serve`."""
    server = uvicorn.Server(HttpConfig(app, app.state.settings, protocol))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


def exchange(address: tuple[str, int], data: bytes, seconds: float = 60) -> bytes:
    """All that the server sends after `data` until it closes the connection."""
    with socket.create_connection(address, timeout=seconds) as client:
        client.sendall(data)
        return read_all(client)


def read_all(client: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def request(body: bytes = BODY, *headers: bytes, head: bytes = POST) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return head + b"Connection: close\r\n" + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body


# ---- connections ----------------------------------------------------------------------------------------------------


def test_half_sent_requests_are_closed(app_of: Callable[..., Any], protocol: Any) -> None:
    limits = {"header_seconds": 0.3, "body_seconds": 0.3, "idle_seconds": 1}
    half = {
        "nothing": b"",
        "part of the head": POST,
        "part of the body": POST + b"Content-Length: 100\r\n\r\n" + BODY,
        "part of a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + BODY,
    }
    with listening(app_of(**limits), protocol) as address:
        for name, data in half.items():
            assert status(exchange(address, data)) == 408, name
        whole = POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
        answer = exchange(address, whole)  # complete, then idle: closed without another answer
        assert status(answer) == 200 and answer.count(b"HTTP/1.1") == 1
        answer = exchange(address, whole + POST)  # the next head is not completed
        assert status(answer) == 200 and answer.count(b"HTTP/1.1 200") == 1


def test_a_client_that_sends_byte_by_byte_is_closed(app_of: Callable[..., Any], protocol: Any) -> None:
    with listening(app_of(header_seconds=0.5), protocol) as address, socket.create_connection(address) as client:
        with contextlib.suppress(OSError):
            for byte in (POST * 20)[:2000]:
                client.sendall(bytes([byte]))
                time.sleep(0.02)
            pytest.fail("the connection stayed open")
        assert status(read_all(client) or b"HTTP/1.1 408 ") == 408


def test_a_client_that_does_not_read_its_answer_is_closed(app_of: Callable[..., Any], protocol: Any) -> None:
    class LongEngine(CapitalEngine):
        async def submit(self, work: Any, seconds: float | None = None) -> list[Any]:
            results = await super().submit(work, seconds)
            return [result | {"source": "x" * 40_000_000} for result in results]

    with listening(app_of(LongEngine(), body_seconds=1), protocol) as address:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        client.sendall(request())
        time.sleep(6)
        client.settimeout(30)
        assert len(read_all(client)) < 30_000_000  # the rest of the answer was dropped
        client.close()


def test_idle_connections_make_room_for_new_ones(app_of: Callable[..., Any], protocol: Any) -> None:
    with listening(app_of(connections=20), protocol) as address:
        idle = [socket.create_connection(address, timeout=60) for _ in range(200)]
        for _ in range(5):
            assert status(exchange(address, request())) == 200
        closed = sum(read_all(client) == b"" for client in idle[:170])
        assert closed == 170  # the oldest ones
        for client in idle:
            client.close()


def test_connections_past_the_limit_get_503_where_none_is_idle(app_of: Callable[..., Any], protocol: Any) -> None:
    entered, release = threading.Semaphore(0), threading.Event()

    class SlowEngine(CapitalEngine):
        async def submit(self, work: Any, seconds: float | None = None) -> list[Any]:
            entered.release()
            while not release.is_set():
                await asyncio.sleep(0.01)
            return await super().submit(work, seconds)

    with listening(app_of(SlowEngine(), connections=3), protocol) as address:
        busy = [socket.create_connection(address, timeout=60) for _ in range(3)]
        for client in busy:
            client.sendall(request())
            assert entered.acquire(timeout=60)
        refused = exchange(address, b"")
        assert status(refused) == 503 and b"Retry-After: 1" in refused
        release.set()
        assert [status(read_all(client)) for client in busy] == [200] * 3  # what was accepted is answered
        for client in busy:
            client.close()


@pytest.mark.slow
def test_ten_thousand_idle_connections_do_not_stop_the_server(app_of: Callable[..., Any], protocol: Any) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 12_000:  # the clients, and the 1,000 that the server keeps open
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with listening(app_of(), protocol) as address:
            idle = [socket.create_connection(address, timeout=60) for _ in range(10_000)]
            assert [status(exchange(address, request())) for _ in range(20)] == [200] * 20
            for client in idle:
                client.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- requests that two parsers may read differently -----------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        request(BODY, b"Transfer-Encoding: chunked"),
        POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        request(head=POST.replace(b"HTTP/1.1", b"HTTP/9.9")),
        request(head=POST.replace(b"\r\n", b"\n")),
        request(BODY, b"X-One: 1\nX-Two: 2"),
        request(BODY, b"Content-Length: 3"),
        request(BODY, b"Host: other.example"),
    ],
    ids=["length-and-chunked", "chunked-and-length", "version", "bare-lf", "one-bare-lf", "two-lengths", "two-hosts"],
)
def test_ambiguous_requests_are_refused(app_of: Callable[..., Any], protocol: Any, data: bytes) -> None:
    engine = CapitalEngine()
    with listening(app_of(engine), protocol) as address, socket.create_connection(address, timeout=60) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        assert status(read_all(client)) == 400
    assert engine.works == []


def test_a_bare_newline_is_noticed_across_packets_and_allowed_in_a_body(
    app_of: Callable[..., Any], protocol: Any
) -> None:
    body = b'{\n"text":\n"the cat"\n}'
    with listening(app_of(), protocol) as address:
        for cut in (len(request(body)) - len(body) - offset for offset in range(-2, 6)):
            with socket.create_connection(address, timeout=60) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.sendall(request(body)[:cut])
                time.sleep(0.05)
                client.sendall(request(body)[cut:])
                assert status(read_all(client)) == 200, cut


def test_head_is_answered_like_get_without_a_body(app_of: Callable[..., Any], protocol: Any) -> None:
    with listening(app_of(), protocol) as address:
        for path in (b"/health", b"/languages", b"/docs", b"/openapi.json", b"/v1/models", b"/nothing"):
            tail = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            get, head = (exchange(address, method + path + tail) for method in (b"GET ", b"HEAD "))
            assert status(get) == status(head) and head.endswith(b"\r\n\r\n"), path
            length = b"content-length: %d\r\n" % len(get.partition(b"\r\n\r\n")[2])
            assert length in get and length in head, path


def test_one_allow_header_names_all_methods(app_of: Callable[..., Any], protocol: Any) -> None:
    with listening(app_of(), protocol) as address:
        for path, methods in ((b"/v2/glossaries", b"GET, POST"), (b"/health", b"GET"), (b"/translate", b"POST")):
            answer = exchange(address, b"PATCH " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert status(answer) == 405 and answer.lower().count(b"\r\nallow:") == 1, answer
            assert b"allow: " + methods in answer, answer


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    "path",
    ["/translate", "/detect", "/translate_file", "/v1/translate", "/v1/score", "/v2/translate", "/v2/document",
     "/v2/glossaries"],
)  # fmt: skip
def test_a_body_that_is_too_large_is_413_on_every_route(app_of: Callable[..., Any], path: str, chunked: bool) -> None:
    kind = b"multipart/form-data; boundary=x" if path in ("/translate_file", "/v2/document") else b"application/json"
    body = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' if b"x" in kind[-1:] else b'"'
    )
    body += b"a" * 3000
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\n" % (path.encode(), kind)
    data = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with listening(app_of(max_body=1000)) as address:
        answer = exchange(address, head + data) if chunked else exchange(address, request(body, head=head))
    assert status(answer) == 413 and b"1,000 bytes" in answer, answer


# ---- browsers of other origins, proxies, hosts ----------------------------------------------------------------------


FORM = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
GLOSSARY = b"POST /v2/glossaries HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], 200),
        ([b"Origin: http://localhost"], 200),
        ([b"Origin: https://localhost"], 200),  # behind a proxy with TLS
        ([b"Origin: https://friend.example"], 200),
        ([b"Origin: https://evil.example"], 403),
        ([b"Origin: http://localhost:3000"], 403),
        ([b"Origin: null"], 403),
        ([b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: navigate"], 403),
        ([b"Sec-Fetch-Site: same-origin"], 200),
        ([b"Sec-Fetch-Site: none"], 200),
    ],
)
def test_pages_of_other_origins_cannot_send_requests(
    app_of: Callable[..., Any], headers: list[bytes], expected: int
) -> None:
    engine = CapitalEngine()
    with listening(app_of(engine, cors=["https://friend.example/"])) as address:
        answer = exchange(address, request(b"q=the+cat&source=en&target=fr", *headers, head=FORM))
        assert status(answer) == expected and bool(engine.works) == (expected == 200)
        made = request(b'{"name": "n", "source_lang": "en", "target_lang": "fr", "entries": "a\\tb", '
                       b'"entries_format": "tsv"}', *headers, head=GLOSSARY)  # fmt: skip
        assert (status(exchange(address, made)) == 403) == (expected == 403)


def test_a_link_from_another_site_opens_a_page(app_of: Callable[..., Any]) -> None:
    headers = b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: %s\r\n"
    with listening(app_of()) as address:
        for mode, expected in ((b"navigate", 200), (b"no-cors", 403)):
            head = b"GET /docs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers % mode
            assert status(exchange(address, head + b"\r\n")) == expected


@pytest.mark.parametrize(("trusted", "expected"), [([], [200, 429]), (["127.0.0.1"], [200, 200])])
def test_x_forwarded_for_is_believed_of_trusted_proxies_alone(
    app_of: Callable[..., Any], trusted: list[str], expected: list[int]
) -> None:
    with listening(app_of(rate_limit=1, trusted_proxies=trusted)) as address:
        statuses = [
            status(exchange(address, request(BODY, b"X-Forwarded-For: 192.0.2.%d" % number))) for number in (1, 2)
        ]
    assert statuses == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"allowed_hosts": None}, b"http://127.0.0.1:%d/download_file/"),
        ({"allowed_hosts": None, "public_url": "https://a.example"}, b"https://a.example/download_file/"),
    ],
)
def test_addresses_in_answers_are_not_those_of_any_host_header(
    app_of: Callable[..., Any], settings: dict[str, Any], expected: bytes
) -> None:
    parts = [b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % pair
             for pair in ((b"source", b"en"), (b"target", b"fr"))]  # fmt: skip
    file = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nthe cat\r\n--x--\r\n'
    head = b"POST /translate_file HTTP/1.1\r\nHost: evil.example\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    with listening(app_of(**settings)) as address:
        answer = exchange(address, request(b"".join([*parts, file]), head=head))
        assert status(answer) == 200 and b"evil" not in answer
        assert (expected % address[1] if b"%d" in expected else expected) in answer


# ---- logs -----------------------------------------------------------------------------------------------------------


def test_no_text_is_logged_where_something_goes_wrong(
    app_of: Callable[..., Any], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    class BrokenEngine(CapitalEngine):
        async def submit(self, work: Any, seconds: float | None = None) -> list[Any]:
            raise ValueError(f"cannot read {work.items}")

        async def stream(self, *call: Any) -> Any:
            yield {"text": "A"}
            raise ValueError(f"cannot read {call}")

    text = b'{"text": "%s"}' % SECRET.encode()
    stream = b'{"text": "%s", "stream": true}' % SECRET.encode()
    with caplog.at_level(logging.DEBUG), listening(app_of(BrokenEngine(), access_log=True)) as address:
        answer = exchange(address, request(text))
        assert status(answer) == 500 and b'{"error":"internal error"}' in answer
        assert status(exchange(address, request(b"q=%s&source=en&target=fr" % SECRET.encode(), head=FORM))) == 500
        exchange(address, request(stream))
        exchange(address, request(b'{"text": ["%s"], "nonsense": 1}' % SECRET.encode()))
        exchange(address, b"GET /%s?q=%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                 % ((SECRET.encode(),) * 2))  # fmt: skip
        exchange(address, b"NONSENSE " + SECRET.encode() + b"\r\n\r\n")
    logged = caplog.text + "".join(capfd.readouterr())
    assert "internal error: ValueError" in logged and 'test_serving_edge.py", line' in logged
    assert SECRET not in logged


def test_a_client_that_leaves_is_one_debug_line(
    app_of: Callable[..., Any], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], protocol: Any
) -> None:
    with caplog.at_level(logging.DEBUG), listening(app_of(), protocol) as address:
        for _ in range(3):
            with socket.create_connection(address) as client:
                client.sendall(POST + b"Content-Length: 1000\r\n\r\n" + BODY)
                time.sleep(0.1)
        with socket.create_connection(address) as client:  # a reset in the middle of the head
            client.sendall(POST)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        deadline = time.monotonic() + 30
        while len(lines_of(caplog)) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert [record.levelname for record in lines_of(caplog)] == ["DEBUG"] * 3
    assert "Traceback" not in caplog.text + "".join(capfd.readouterr())


def lines_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith(("harken", "uvicorn.error"))
            and "left" in record.getMessage()]  # fmt: skip


# ---- the commands ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
@pytest.mark.parametrize("verb", ["serve", "studio"])
def test_an_address_that_others_reach_wants_keys_or_their_absence(verb: str, host: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harken", verb, str(tmp_path), "--host", host, "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert host in done.stderr and "--api-keys FILE" in done.stderr and "--no-keys" in done.stderr
