"""Who looks at requests does not choose the code that handles them.

Every request code is walked in plain brokers and in brokers with an interceptor, a fault for
others, a guard or a put hook, none of which changes anything; the functions of `embedded_broker`
that are entered are the same. A fault and a guard enter functions of their own besides. Messages
that a put hook sees are stored one by one, so there only the functions of the wire are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

import embedded_broker
from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.guards import Asked
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Request
from embedded_broker.settings.profiles import ProfileName
from embedded_broker.store.put_values import InnerMessage
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from tests.golden.sends import Peer
from tests.hostile.extreme_requests import FORMS, FORMS_OF_4_9, TOPIC

ROOT: Final = Path(embedded_broker.__file__).parent
PROFILES: Final[Mapping[ProfileName, Mapping[int, object]]] = {
    "rocketmq-5.x": FORMS,
    "rocketmq-4.9": FORMS | FORMS_OF_4_9,
}
LEFT_TO_OTHERS: Final = ("clocks/", "door.py")
"""Whether a thread waits for another one, and which of them does what is due, is chance."""


class Onlooker:
    """An interceptor, a guard and a put hook that lets everything pass."""

    name = "onlooker"

    def incoming(self, _endpoint: Endpoint, _request: Request) -> None:
        """Let it be handled."""

    def outgoing(self, _request: Request, parts: list[bytes]) -> list[bytes]:
        """Let it leave."""
        return parts

    def check(self, _asked: Asked) -> None:
        """Allow it."""

    def before_put(self, _message: InnerMessage, _now_ms: int) -> None:
        """Leave it as it is."""


def do_nothing(_broker: EmbeddedBroker, _parts: BrokerParts) -> None:
    """Look at nothing."""


def intercept(_broker: EmbeddedBroker, parts: BrokerParts) -> None:
    """Look at every request."""
    parts.endpoint.interceptors.append(Onlooker())


def let_others_fail(broker: EmbeddedBroker, _parts: BrokerParts) -> None:
    """Ask for a fault that no request meets."""
    broker.faults.on(None, topic="no such topic").drop()


def guard(_broker: EmbeddedBroker, parts: BrokerParts) -> None:
    """Allow every request."""
    parts.guards.append(Onlooker())


def hook(_broker: EmbeddedBroker, parts: BrokerParts) -> None:
    """Look at every message that is stored."""
    parts.store.hooks.listed.append(Onlooker())


@contextmanager
def entered() -> Iterator[set[str]]:
    """Collect the functions of the broker that this thread enters."""
    found: set[str] = set()
    places: dict[str, str] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            code = frame.f_code
            name = places.get(code.co_filename)
            if name is None:
                path = Path(code.co_filename)
                inside = path.is_relative_to(ROOT)
                name = path.relative_to(ROOT).as_posix() if inside else ""
                places[code.co_filename] = name
            if name and not name.startswith(LEFT_TO_OTHERS):
                found.add(f"{name} {code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


def walked(
    profile: ProfileName, prepare: Callable[[EmbeddedBroker, BrokerParts], None]
) -> dict[int, set[str]]:
    """Send every code three times, two of them in one piece; give what was entered for each."""
    found = {}
    clock = VirtualClock()
    with EmbeddedBroker(
        clock=clock, session_clock=clock, tcp=False, topics=[TOPIC], seed=1, profile=profile
    ) as broker:
        parts, peer = broker._parts(), Peer()
        parts.endpoint.connected(peer)
        prepare(broker, parts)
        codes = set(RequestCode) & set(parts.endpoint.handlers)
        for code in sorted(codes):
            form = PROFILES[profile].get(code)
            fields, body = getattr(form, "fields", {}), getattr(form, "body", b"")
            frame = RemotingCommand(code, ext_fields=dict(fields), body=body).encode()
            with entered() as names:
                for piece in (frame + frame, frame):
                    parts.endpoint.receive(peer, FrameDecoder().feed(piece))
            found[int(code)] = names
    return found


@pytest.fixture(scope="module", params=PROFILES)
def profile(request: pytest.FixtureRequest) -> ProfileName:
    name: ProfileName = request.param
    walked(name, do_nothing)  # what is prepared once in a process is no difference
    return name


def test_every_code_that_is_handled_is_walked(profile: ProfileName) -> None:
    found = walked(profile, do_nothing)
    assert len(found) > 50
    assert all("remoting/endpoint.py Endpoint._handle" in names for names in found.values())


@pytest.mark.parametrize(
    ("prepare", "own"),
    [
        (intercept, ()),
        (let_others_fail, ("remoting/request_faults.py ", "remoting/journal.py first_field")),
        (guard, ("remoting/code_meanings.py ", "remoting/claims.py ", "core/guards.py ")),
        (hook, ("core/", "settings/", "store/", "tables/", "timer/")),
    ],
    ids=["interceptor", "fault", "guard", "put hook"],
)
def test_the_same_functions_are_entered_whoever_looks_on(
    profile: ProfileName,
    prepare: Callable[[EmbeddedBroker, BrokerParts], None],
    own: tuple[str, ...],
) -> None:
    plain, looked_at = walked(profile, do_nothing), walked(profile, prepare)
    for code, names in plain.items():
        others = {name for name in looked_at[code] if not (own and name.startswith(own))}
        expected = {name for name in names if not (own and name.startswith(own))}
        assert others == expected, RequestCode(code).name
