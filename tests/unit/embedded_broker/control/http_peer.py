"""A program that asks a broker's HTTP face, as tests in any language do."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson
from attrs import frozen

GUARD_S = 60


@frozen
class Answer:
    status: int
    kind: str
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class HttpPeer:
    def __init__(self, url: str) -> None:
        self.address = urlsplit(url).netloc

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        connection = HTTPConnection(self.address, timeout=GUARD_S)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers.get_content_type(), answer.read())
        finally:
            connection.close()

    def get(self, path: str, /, **query: object) -> Any:
        return self._good(self.ask("GET", f"{path}?{urlencode(query)}" if query else path))

    def post(self, path: str, /, **body: object) -> Any:
        return self._good(self.send(path, **body))

    def delete(self, path: str) -> Any:
        return self._good(self.ask("DELETE", path))

    def send(self, path: str, /, **body: object) -> Answer:
        return self.ask("POST", path, orjson.dumps(body), {"Content-Type": "application/json"})

    def refused(self, status: int, method: str, path: str, /, **body: object) -> Any:
        """The problem that is told."""
        answer = self.send(path, **body) if method == "POST" else self.ask(method, path)
        assert (answer.status, answer.kind) == (status, "application/problem+json"), answer
        return answer.json

    @staticmethod
    def _good(answer: Answer) -> Any:
        assert (answer.status, answer.kind) == (200, "application/json"), answer.body
        return answer.json
