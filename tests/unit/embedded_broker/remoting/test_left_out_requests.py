"""Each request code is served, or left out with a reason on the page GAPS.md and answered 3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect

PAGE = Path(__file__).resolve().parents[4] / "GAPS.md"
SECTION = "## Requests that are left out\n"


def left_out() -> Iterator[int]:
    """Give the codes in the first column of the page's table: numbers, and `first to last`."""
    section = PAGE.read_text(encoding="utf-8").partition(SECTION)[2].partition("\n## ")[0]
    for row in re.findall(r"^\| ([\d, to]+) \|", section, flags=re.MULTILINE):
        for word in row.split(", "):
            first, _, last = word.partition(" to ")
            yield from range(int(first), int(last or first) + 1)


LEFT_OUT = sorted(left_out())
OF_4_9 = {
    *(10, 11, 12, 14, 15, 17, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43),
    *(45, 46, 50, 51, 52, 53, 100, 101, 102, 103, 104, 105, 106),
    *(*range(200, 209), 215, 216, 219, 222, 223, 224, 300, *range(303, 326), 327, 328, 329),
}
"""What the servers of 4.9.4 answer, by their own tables, but for what is left out."""


def served(broker: EmbeddedBroker) -> set[int]:
    """Give the codes that a broker and its name server answer."""
    runtime = broker._running_brokers._runtime
    assert runtime is not None
    assert runtime.namesrv_endpoint is not None
    return {*broker._parts().endpoint.handlers, *runtime.namesrv_endpoint.handlers}


def test_every_code_is_served_or_left_out_with_its_reason(start_broker: StartBroker) -> None:
    brokers = [start_broker(profile=one, tcp=False) for one in ("rocketmq-5.x", "rocketmq-4.9")]
    known = {code for broker in brokers for code in served(broker)}
    assert {int(code) for code in RequestCode} - known - set(LEFT_OUT) == set()
    assert known & set(LEFT_OUT) == set()


def test_a_broker_of_4_9_knows_nothing_that_came_later(start_broker: StartBroker) -> None:
    """And one of 5.x does not know the accounts of 4.9 any more."""
    assert served(start_broker(profile="rocketmq-4.9", tcp=False)) == OF_4_9
    newer = served(start_broker(profile="rocketmq-5.x", tcp=False))
    assert OF_4_9 - newer == {50, 51, 52, 53}


def test_no_code_is_left_out_twice() -> None:
    assert len(LEFT_OUT) == len(set(LEFT_OUT)) > 40


@pytest.mark.parametrize("address", ["addr", "namesrv_addr"])
def test_what_is_left_out_is_answered_3(
    broker: EmbeddedBroker, connect: Connect, address: str
) -> None:
    peer = connect(getattr(broker, address))
    answers = {code: peer.ask(code) for code in LEFT_OUT}
    assert {answer.code for answer in answers.values()} == {ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
    told = {code: answer.remark for code, answer in answers.items()}
    assert told == {code: f" request type {code} not supported" for code in LEFT_OUT}
