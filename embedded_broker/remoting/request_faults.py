"""Injected faults: requests or answers that a test wants refused, late, lost or damaged.

Answers: ``broker.faults.on(...)``: which requests of clients a fault is about, and what happens to
them. The test's own ``broker.send`` is never hit. Must not know: what a request does. Read on:
``embedded_broker/remoting/endpoint.py``, which asks here about every request while
there is a fault, and ``embedded_broker/api/faults.py`` for the disk.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol, Self

from attrs import define, field

from embedded_broker.door import Door
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.journal import (
    GROUP_FIELDS,
    TOPIC_FIELDS,
    Exchange,
    asked_for,
    code_of,
    first_field,
)
from embedded_broker.remoting.requests import Request
from embedded_broker.tables.peer import Peer
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.rpc import Rpc, RpcStatus

CHOSEN_MAX: Final = 10_000
"""Requests under way whose answer is to go wrong; those of ended connections leave first."""
_HEADER_AT: Final = 8
"""Where the header of a frame begins, behind its two lengths."""

GRPC_STATUSES: Final = frozenset(
    {
        *("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
        *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
        *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
        "UNAUTHENTICATED",
    }
)
_OF_REMOTING: Final = frozenset({"respond"})
"""Verbs that mean something else in each protocol."""
_NOTHING: Final = "has no verb yet: respond, delay, drop, drop_response, close or corrupt"


def answers_to(code: int | Rpc | None) -> type[ResponseCode | RpcStatus]:
    """Give the codes with which requests of this kind are answered."""
    return RpcStatus if isinstance(code, Rpc) else ResponseCode


@define(eq=False, repr=False)
class Fault:
    """One fault: ``faults.on(code, ...)`` and then a verb, such as ``.respond(code)``.

    It happens once; ``times(n)`` and ``always()`` change that. ``hits`` counts how often it did.
    Used in a ``with`` statement it ends with the block. When several faults fit a request, the one
    that was asked for first is used.
    """

    _faults: "RequestFaults"
    code: int | Rpc | None
    _topic: str | None
    _group: str | None
    _client: str | None
    _nth: int
    hits: int = field(default=0, init=False)
    _seen: int = field(default=0, init=False)
    _times: int | None = field(default=1, init=False)
    verb: str = field(default="", init=False)
    """What happens to the request."""
    response: tuple[int, str] = field(default=(0, ""), init=False)
    """Code and remark of ``respond``."""
    delay_ms: int = field(default=0, init=False)
    """How long the request waits."""

    def __repr__(self) -> str:
        told = {"topic": self._topic, "group": self._group, "client": self._client}
        about = [f"{name}={value!r}" for name, value in told.items() if value is not None]
        if self._nth > 1:
            about.append(f"nth={self._nth}")
        verb = self.verb or ("delay" if self.delay_ms else _NOTHING)
        try:
            code = self.code
            name = RequestCode(code).name if isinstance(code, int) else str(code)
        except ValueError:
            name = str(self.code)
        return f"<fault on({', '.join([name, *about])}).{verb}, {self.hits} hits>"

    # -- verbs ----------------------------------------------------------------------------------

    def respond(self, code: int | str, remark: str = "a test asked for this answer") -> Self:
        """Answer with this response code, or its name, instead of handling the request.

        To a call over gRPC the answer is a status, such as ``42900`` or ``"TOO_MANY_REQUESTS"``.
        """
        self.response = (code_of(answers_to(self.code), code), remark)
        return self._does("respond")

    def abort(self, status: str = "UNAVAILABLE") -> Self:
        """End a call over gRPC with a status of gRPC itself, by its name."""
        if not isinstance(self.code, Rpc):
            limit = "a call over gRPC, such as faults.on('SendMessage'): others know no such status"
            raise ConfigError("abort", status, limit)
        if status not in GRPC_STATUSES:
            raise ConfigError("abort", status, "one of " + ", ".join(sorted(GRPC_STATUSES)))
        self.response = (0, status)
        return self._does("abort")

    def delay(self, seconds: float) -> Self:
        """Handle the request later, by the session clock. Another verb may be added."""
        if seconds <= 0:
            raise ConfigError("seconds", seconds, "more than 0")
        self.delay_ms = round(seconds * 1000)
        self._faults.arm(self)
        return self

    def drop(self) -> Self:
        """Ignore the request: it is not handled and not answered."""
        return self._does("drop")

    def drop_response(self) -> Self:
        """Handle the request and lose its answer.

        The client waits for it until its own time-out. A producer of this SDK repeats a send only
        when that leaves time: with ``send_msg_max_timeout_per_request=100`` it does after 100 ms,
        else the first attempt uses up ``send_msg_timeout`` (3 s).
        """
        return self._does("drop_response")

    def close(self, *, after: bool = False) -> Self:
        """Close the connection instead of handling the request; ``after``: instead of answering."""
        return self._does("close_after" if after else "close")

    def corrupt(self) -> Self:
        """Handle the request and damage the header of its answer, so that nobody can read it."""
        return self._does("corrupt")

    def times(self, count: int) -> Self:
        """Let it happen ``count`` times, beginning with the ``nth`` request."""
        if count < 1:
            raise ConfigError("times", count, "1 or more")
        self._times = count
        return self

    def always(self) -> Self:
        """Let it happen every time, from the ``nth`` request on."""
        self._times = None
        return self

    def end(self) -> None:
        """End the fault. ``hits`` keeps its value."""
        self._faults.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _does(self, verb: str) -> Self:
        if self.verb:
            raise ConfigError("fault", verb, f"one verb besides delay; it has {self.verb}")
        self.verb = verb
        self._faults.arm(self)
        return self

    # -- what the endpoint asks -------------------------------------------------------------------

    def takes(
        self, code: int | Rpc, fields: Mapping[str, str], client_id: str, *, namesrv: bool = False
    ) -> bool:
        """Count a request if it is one of those meant; say whether it goes wrong.

        A fault about any request is about the broker's, not about the name server's. Of calls over
        gRPC it is only if what it does is the same for all protocols.
        """
        is_other = self.verb in _OF_REMOTING and isinstance(code, Rpc)
        if (
            (namesrv or is_other if self.code is None else code != self.code)
            or (self._topic is not None and first_field(fields, TOPIC_FIELDS) != self._topic)
            or (self._group is not None and first_field(fields, GROUP_FIELDS) != self._group)
            or (self._client is not None and client_id != self._client)
        ):
            return False
        self._seen += 1
        if self._seen < self._nth or (self._times is not None and self.hits >= self._times):
            return False
        self.hits += 1
        return True


class Faulted(Protocol):
    """Where requests come in that may go wrong."""

    @property
    def door(self) -> Door:
        """What its state is behind."""

    def cut(self, client_id: str, status: str) -> bool:
        """End what a client listens to with a status; false when there is nothing."""

    @property
    def interceptors(self) -> "list[Any]":  # Any: what each protocol calls an interceptor
        """Who is asked about every request."""


@define(eq=False)
class RequestFaults:
    """All faults of one broker's addresses; an ``Interceptor`` of their endpoints."""

    _faults: tuple[Fault, ...] = field(default=(), init=False)
    _asked: list[Fault] = field(factory=list, init=False)
    _endpoints: "tuple[Faulted, ...]" = field(default=(), init=False)
    _chosen: dict[Exchange, Fault] = field(factory=dict, init=False)

    def on(
        self,
        code: int | str | None,
        *,
        topic: str | None = None,
        group: str | None = None,
        client: str | None = None,
        nth: int = 1,
    ) -> Fault:
        """Choose requests with a code, or any; see ``Faults.on``."""
        if nth < 1:
            raise ConfigError("nth", nth, "1 or more: the first request is number 1")
        number = None if code is None else asked_for(code)
        fault = Fault(self, number, topic, group, client, nth)
        self._asked.append(fault)
        return fault

    @property
    def asked(self) -> list[Fault]:
        """The faults that were asked for, also those that have ended."""
        return list(self._asked)

    def attach(self, *endpoints: "Faulted") -> None:
        """Let these endpoints ask, instead of those of an earlier life."""
        self._endpoints = endpoints
        self._chosen.clear()
        self._tell()

    def arm(self, fault: Fault) -> None:
        """Let a fault happen from now on."""
        if fault not in self._faults:
            self._faults = (*self._faults, fault)
            self._tell()

    def remove(self, fault: Fault) -> None:
        """Let a fault happen no more."""
        self._faults = tuple(known for known in self._faults if known is not fault)
        self._tell()

    def clear(self) -> None:
        """Let nothing go wrong, and forget what was asked for."""
        self._faults = ()
        self._asked.clear()
        self._tell()

    @property
    def unused(self) -> list[Fault]:
        """The faults that were asked for and never happened."""
        return [fault for fault in self._asked if not fault.hits]

    def _tell(self) -> None:
        """Let endpoints ask only while there is something to go wrong."""
        for endpoint in self._endpoints:
            there = self in endpoint.interceptors
            if there and not (self._faults or self._chosen):
                endpoint.interceptors.remove(self)
            elif not there and (self._faults or self._chosen):
                endpoint.interceptors.append(self)

    def cut_telemetry(self, client_id: str, status: str) -> None:
        """End the stream of a gRPC client; see ``Faults.cut_telemetry``."""
        if status not in GRPC_STATUSES:
            raise ConfigError("status", status, "one of " + ", ".join(sorted(GRPC_STATUSES)))
        for endpoint in self._endpoints:
            with endpoint.door:
                if endpoint.cut(client_id, status):
                    return
        raise ConfigError("client", client_id, "the id of a gRPC client that has a stream open")

    # -- what the endpoint asks, under the door ---------------------------------------------------

    def choose(
        self, code: int | Rpc, fields: Mapping[str, str], peer: Peer, *, namesrv: bool = False
    ) -> Fault | None:
        """Give the fault that a request of a peer meets."""
        of = (code, fields, peer.client_id)
        return next((one for one in self._faults if one.takes(*of, namesrv=namesrv)), None)

    def incoming(self, endpoint: Endpoint, request: Request) -> Callable[[], None] | None:
        """Give what happens instead of handling the request, when a fault fits it."""
        connection, command, _ = request
        fault = self.choose(
            command.code, command.ext_fields, connection, namesrv=endpoint.is_namesrv
        )
        if fault is None:
            return None
        if not fault.delay_ms:
            return self._instead(fault, endpoint, request)

        def handle() -> None:
            if not connection.closed:
                instead = self._instead(fault, endpoint, request)
                if instead is None:
                    endpoint.handle(request)
                else:
                    instead()

        def wait() -> None:
            endpoint.session.after(fault.delay_ms, handle, "a delayed request")

        return wait

    def _instead(
        self, fault: Fault, endpoint: Endpoint, request: Request
    ) -> Callable[[], None] | None:
        """Give what a fault does in place of the handler; None if it is about the answer."""
        if fault.verb == "respond":
            answer = request.command.answer(*fault.response)
            return partial(endpoint.respond, request, answer)
        if fault.verb == "close":
            return partial(endpoint.door.after, request.connection.close)
        if fault.verb == "drop":
            return _do_nothing
        if fault.verb and not request.command.is_oneway:
            self._choose(request.exchange, fault)
        return None

    def _choose(self, exchange: Exchange, fault: Fault) -> None:
        if len(self._chosen) >= CHOSEN_MAX:
            gone = [one for one in self._chosen if one.connection.closed]
            for one in gone or list(self._chosen)[:1]:
                del self._chosen[one]
        self._chosen[exchange] = fault

    def outgoing(self, request: Request, parts: list[bytes]) -> list[bytes]:
        """Give an answer as it is, damaged, or nothing of it."""
        fault = self._chosen.pop(request.exchange, None)
        if fault is None:
            return parts
        if fault.verb == "corrupt":
            data = b"".join(parts)
            return [data[:_HEADER_AT] + bytes(one ^ 0xFF for one in data[_HEADER_AT:])]
        if fault.verb == "close_after":
            request.connection.close()
        return []


def _do_nothing() -> None:
    """Drop a request."""
