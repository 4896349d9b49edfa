"""Requests as they should not be: each is answered with a problem, and the next one works."""

from __future__ import annotations

import asyncio
import socket
from threading import Event
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.control import app as app_module
from embedded_broker.control.app import BODY_MAX, make_app
from embedded_broker.control.thread_calls import ThreadCalls, TooManyCalls
from tests.unit.embedded_broker.control.http_peer import HttpPeer

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "headers", "status", "told"),
    [
        (b"{", JSON, 400, "no JSON"),
        (b"[]", JSON, 400, "list"),
        (b'{"seconds":1}', {"Content-Type": "text/plain"}, 415, "text/plain"),
        (b'{"seconds":1}', {}, 415, "application/json"),
        (b"x" * (BODY_MAX + 1), JSON, 413, str(BODY_MAX)),
    ],
)
def test_a_bad_body_is_refused(
    control: HttpPeer, body: bytes, headers: dict[str, str], status: int, told: str
) -> None:
    before = control.get("/clock")["now_ms"]
    answer = control.ask("POST", "/clock/advance", body, headers)
    assert (answer.status, answer.kind) == (status, "application/problem+json")
    assert told in answer.json["detail"]
    assert control.get("/clock")["now_ms"] == before


def test_no_body_counts_as_an_empty_one(control: HttpPeer) -> None:
    assert control.ask("POST", "/clock/settle").json["ok"]


def test_a_field_in_the_wrong_place_is_refused(control: HttpPeer) -> None:
    told = control.refused(400, "POST", "/clock/advance?seconds=1")
    assert told["setting"] == "seconds"
    assert control.refused(404, "GET", "/nowhere")["title"] == "NoSuchOperation"


def test_a_body_that_does_not_come_is_not_waited_for(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "BODY_S", 0.05)
    host, port = broker.control_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as peer:
        peer.sendall(b"POST /pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        assert peer.recv(100).startswith(b"HTTP/1.1 408 ")


def test_an_answer_that_is_too_long_says_so(
    control: HttpPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "ANSWER_MAX", 200)
    told = control.refused(422, "GET", "/openapi.json")
    assert (told["title"], told["limit"]) == ("AnswerTooLong", "200 bytes")


def test_more_calls_than_may_run_at_once_are_refused(
    control: HttpPeer, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise TooManyCalls

    monkeypatch.setattr(ThreadCalls, "run", refuse)
    told = control.refused(503, "GET", "/clock")
    assert told["limit"] == "16 at once"


def ask_as(app: Any, peer: str, headers: dict[str, str]) -> int:
    """The status that a request of another host gets."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/clock",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": (peer, 40_000),
        "server": ("127.0.0.1", 9880),
        "scheme": "http",
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])


@pytest.mark.case("K26")
def test_another_host_is_refused_unless_it_knows_the_token(broker: EmbeddedBroker) -> None:
    def make(token: str | None) -> Any:
        return make_app(lambda: [broker], token=token, calls=ThreadCalls(), closing=Event())

    here = {"host": "127.0.0.1:9880"}
    assert ask_as(make(None), "127.0.0.1", here) == 200
    assert ask_as(make(None), "10.0.0.9", here) == 403
    assert ask_as(make("t" * 16), "10.0.0.9", here) == 401
    known = {"authorization": "Bearer " + "t" * 16}
    assert ask_as(make("t" * 16), "10.0.0.9", known) == 200
