"""Web application of the control face: routes, bounded bodies, answers and problems.

Answers: how a request over HTTP becomes a call, and its result an answer. Nothing is decided here:
``gatekeeper.py`` says who may ask, ``fields.py`` what may be given, and the rows in ``operations/``
what is done. Must not know: sockets, threads of a server. Read on: ``server.py``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from threading import Event, Lock
from typing import Any, Final

import orjson
from attrs import frozen
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.control.answers import to_json
from embedded_broker.control.fault_numbers import FaultNumbers
from embedded_broker.control.fields import read_fields
from embedded_broker.control.gatekeeper import Gatekeeper
from embedded_broker.control.openapi import document
from embedded_broker.control.operation import BROKER, Call, Operation
from embedded_broker.control.operations import FAMILIES, OPERATIONS
from embedded_broker.control.page import page
from embedded_broker.control.problems import PROBLEM_TYPE, problem, problem_of
from embedded_broker.control.thread_calls import CALLS_MAX, ThreadCalls, TooManyCalls

BODY_MAX: Final = 8 << 20
"""Bytes of a request's body: a message of 4 MiB in base64, and some more."""
BODY_S: Final = 10
"""Seconds within which a body has to come."""
ANSWER_MAX: Final = 64 << 20
"""Bytes of an answer."""


@frozen(kw_only=True)
class Face:
    """What all requests share."""

    brokers: Callable[[], Sequence[EmbeddedBroker]]
    gatekeeper: Gatekeeper
    calls: ThreadCalls
    closing: Event
    faults: FaultNumbers
    life: Lock
    """Held while a broker may be away, so that one request at a time ends and starts brokers."""


def make_app(
    brokers: Callable[[], Sequence[EmbeddedBroker]],
    *,
    token: str | None,
    calls: ThreadCalls,
    closing: Event,
) -> Starlette:
    """Make the application for these brokers; the first one is meant when none is named."""
    face = Face(
        brokers=brokers,
        gatekeeper=Gatekeeper(token),
        calls=calls,
        closing=closing,
        faults=FaultNumbers(),
        life=Lock(),
    )
    return Starlette(
        routes=[
            *(Route(one.path, _endpoint(face, one), methods=[one.method]) for one in OPERATIONS),
            Route("/openapi.json", _tell_document, methods=["GET"]),
            *(Route(path, _show_page, methods=["GET"]) for path in ("/", "/docs")),
        ],
        middleware=[Middleware(_AtTheGate, face.gatekeeper)],
        exception_handlers={HTTPException: _tell_http_error},
    )


class _AtTheGate:
    """Asks the gatekeeper about every request, also about pages and paths that do not exist."""

    def __init__(self, app: ASGIApp, gatekeeper: Gatekeeper) -> None:
        self._app = app
        self._gatekeeper = gatekeeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self._app
        if scope["type"] == "http":
            request = Request(scope)
            peer = None if request.client is None else request.client.host
            refusal = self._gatekeeper.refuses(peer, request.headers)
            if refusal is not None:
                answer = _problem(refusal.status, refusal.title, refusal.detail)
        await answer(scope, receive, send)


def _endpoint(face: Face, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        query: dict[str, object] = dict(request.query_params)
        try:
            name = query.pop(BROKER.name, None) if operation.is_of_one_broker else None
            if operation.has_body:
                read_fields((), query)  # what is given goes into the body
            given = await _body_of(request) if operation.has_body else query
            values = {
                **read_fields(operation.path_fields, request.path_params),
                **read_fields(operation.fields, given),
            }
            call = Call(
                broker=_choose(face.brokers(), name),
                brokers=face.brokers(),
                given=values,
                faults=face.faults,
                closing=face.closing,
            )
            return await face.calls.run(partial(_act, face, operation, call))
        except _BadBody as error:
            return _problem(error.status, "BadBody", str(error))
        except TooManyCalls:
            detail = f"{CALLS_MAX} requests are being handled or wait: try again later"
            return _problem(503, "TooManyCalls", detail, limit=f"{CALLS_MAX} at once")
        except Exception as error:  # noqa: BLE001 - the caller is told, and the log if it is odd
            return _json(problem_of(error), status=None)

    return answer


def _act(face: Face, operation: Operation, call: Call) -> Response:
    """Call, and write the answer, on a thread of its own."""
    if operation.changes_life:
        with face.life:
            result = operation.act(call)
    else:
        result = operation.act(call)
    return _json(to_json(result))


def _choose(brokers: Sequence[EmbeddedBroker], name: object) -> EmbeddedBroker:
    if name is None:
        return brokers[0]
    for broker in brokers:
        if broker.broker_name == name:
            return broker
    there = ", ".join(one.broker_name for one in brokers)
    raise KeyError(f"no broker {name!r}; there are {there}")


class _BadBody(Exception):  # noqa: N818 - reads as what it is
    """A body that is too long, too slow or no JSON object."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


async def _body_of(request: Request) -> dict[str, object]:
    """Read the JSON object of a request; nothing at all counts as an empty one."""
    try:
        async with asyncio.timeout(BODY_S):
            data = await _bytes_of(request)
    except TimeoutError:
        raise _BadBody(408, f"the body did not come within {BODY_S} s") from None
    if not data:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # else a form of another site's page would do
        raise _BadBody(415, f"Content-Type = {kind!r} is not possible: application/json")
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _BadBody(400, f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise _BadBody(400, f"the body is a JSON {type(found).__name__}, not an object")
    return found


async def _bytes_of(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_MAX:
            raise _BadBody(413, f"the body is longer than {BODY_MAX} bytes")
    return bytes(data)


def _json(told: Any, status: int | None = 200) -> Response:
    """Give an answer; without a status it is a problem, which names its own."""
    data = orjson.dumps(told)
    if len(data) > ANSWER_MAX:
        detail = f"the answer has {len(data)} bytes: ask for less, for example with limit"
        return _problem(422, "AnswerTooLong", detail, limit=f"{ANSWER_MAX} bytes")
    kind = "application/json" if status is not None else PROBLEM_TYPE
    return Response(data, status_code=status or told["status"], media_type=kind)


def _problem(status: int, title: str, detail: str, **members: object) -> Response:
    return _json(problem(status, title, detail, **members), status=None)


async def _tell_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = f"{request.method} {request.url.path}: there is no such operation; see /docs"
    headers: Mapping[str, str] | None = getattr(error, "headers", None)
    answer = _problem(status, "NoSuchOperation", detail)
    answer.headers.update(headers or {})
    return answer


async def _tell_document(_: Request) -> Response:
    return _json(document(FAMILIES))


async def _show_page(request: Request) -> Response:
    return HTMLResponse(page(FAMILIES, str(request.base_url).rstrip("/")))
