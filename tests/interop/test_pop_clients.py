"""An unmodified Java client of 5.3.3 pops from our broker; the same programs run on a real one."""

from __future__ import annotations

from collections import Counter

from tests.interop.conftest import OnBoth
from tests.interop.java_tools import client_program
from tests.waiting import HANG_S

MESSAGES = 40
VERSION = "5.3.3"

RAW = [
    "POP nothing POLLING_NOT_FOUND 0",
    "POP first FOUND m0/0 m1/0 m2/0 3",
    "ACK first 0 OK",
    "ACK first 0 twice OK",
    "CHANGE first 1 OK",
    "ACK first 1 by its old handle OK",
    "POP second FOUND m3/0 m4/0 m5/0 0",
    "BATCH second OK",
    "POP no more POLLING_NOT_FOUND 0",
    "POP back FOUND m2/1 0",
    "ACK back OK",
    "POP late FOUND m1/1 0",
    "ACK late OK",
    "ACK first 1, when it was back OK",
    "ACK no such offset NO_EXIST",
    "ACK no handle NO_EXIST",
    "POP ordered FOUND o0/0 o1/0 1",
    "POP ordered by another POLLING_NOT_FOUND 0",
    "POP ordered once more FOUND o0/0 o1/0 1",
    "ACK ordered OK",
    "ACK ordered OK",
    "POP ordered then FOUND o2/0 0",
]
"""What the program tells of a real 5.3.3 broker."""


def test_single_pops_are_answered_as_by_a_real_broker(on_both: OnBoth) -> None:
    with (
        on_both("PopRawTopic") as address,
        client_program(
            VERSION, "PopRaw", address, "PopRawTopic", "PopRawGroup", artifact="rocketmq-tools"
        ) as program,
    ):
        assert program.finish(HANG_S) == 0, program.lines
    told = [" ".join(line.split("\t")) for line in program.lines if "\t" in line]
    assert told == RAW


def test_a_push_consumer_in_pop_mode_gets_all_and_what_it_failed_with_again(
    on_both: OnBoth,
) -> None:
    with (
        on_both("PopPushTopic") as address,
        client_program(
            VERSION,
            "PopPush",
            address,
            "PopPushTopic",
            "PopPushGroup",
            str(MESSAGES),
            "90",
            artifact="rocketmq-tools",
        ) as program,
    ):
        assert program.finish(HANG_S) == 0, program.lines
    received = program.table("RECEIVED")
    times = Counter((body, int(tried)) for body, _, tried in received)
    failing = {f"m{number}" for number in range(9, MESSAGES, 10)}
    expected = {(f"m{number}", 0): 1 for number in range(MESSAGES)}
    expected |= {(body, 1): 1 for body in failing}
    assert times == expected
    assert {topic for _, topic, _ in received} == {"PopPushTopic"}
