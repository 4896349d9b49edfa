"""Hosts, message ids, unique keys and recall handles as text."""

from __future__ import annotations

import base64
import os
import threading
from datetime import datetime

import pytest

from rocketmq_py.errors import RemotingCommandException
from rocketmq_py.protocol.delay import timer_out_ms
from rocketmq_py.protocol.handles import (
    RecallHandle,
    UniqIdGenerator,
    decode_offset_id,
    encode_offset_id,
    pack_host,
    unpack_host,
)

OFFSET_ID = "7F00000100002A9F00000000000000ED"
HANDLE = "djEgVG9waWNBIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgN0YwMDAwMDEwMDAwMkE5RjRENEIwMDAwMDAwMDAwQUI="
HANDLE_PARTS = RecallHandle(
    "TopicA", "broker-a", 1_700_000_000_001, "7F00000100002A9F4D4B0000000000AB"
)


@pytest.mark.case("W45")
def test_an_offset_id_names_host_port_and_offset() -> None:
    assert decode_offset_id(OFFSET_ID) == ("127.0.0.1", 10911, 237)
    assert decode_offset_id(OFFSET_ID.lower()) == ("127.0.0.1", 10911, 237)
    assert encode_offset_id(pack_host("127.0.0.1", 10911), 237) == OFFSET_ID


@pytest.mark.case("W45")
def test_an_offset_id_of_56_digits_names_an_ipv6_host() -> None:
    text = encode_offset_id(pack_host("fd00::1", 10911), 2**40)
    assert len(text) == 56
    assert decode_offset_id(text) == ("fd00::1", 10911, 2**40)


@pytest.mark.case("W45")
@pytest.mark.parametrize(
    "text", ["", OFFSET_ID[:-1], OFFSET_ID + "0", "Z" * 32, OFFSET_ID + "\n", " " * 32, "0" * 40]
)
def test_a_text_that_is_no_offset_id_is_refused(text: str) -> None:
    with pytest.raises(RemotingCommandException, match="32 or 56 hex digits"):
        decode_offset_id(text)


@pytest.mark.parametrize(
    ("ip", "size"), [("127.0.0.1", 8), ("255.255.255.255", 8), ("::1", 20), ("fd00::2", 20)]
)
def test_a_packed_host_comes_back(ip: str, size: int) -> None:
    packed = pack_host(ip, 10911)
    assert size == len(packed)
    assert (ip, 10911) == unpack_host(packed)


def test_an_address_with_a_zone_is_packed_without_it() -> None:
    assert pack_host("fe80::1", 1) == pack_host("fe80::1%eth0", 1)


@pytest.mark.parametrize(("ip", "port"), [("localhost", 1), ("1.2.3", 1), ("", 1), ("::1", 2**31)])
def test_what_is_no_address_is_not_packed(ip: str, port: int) -> None:
    with pytest.raises(ValueError, match="cannot be packed"):
        pack_host(ip, port)


def test_a_packed_host_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="8 or 20 bytes, not 7"):
        unpack_host(b"1234567")


# --- unique keys ---


class SteppedClock:
    """A clock that says what the test last told it."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


JULY = int(datetime(2024, 7, 15, 12, 0, 0).astimezone().timestamp() * 1000)
JULY_BEGIN = int(datetime(2024, 7, 1, 0, 0, 0).astimezone().timestamp() * 1000)


def span_of(unique_id: str) -> int:
    return int(unique_id[-12:-4], 16)


def counter_of(unique_id: str) -> int:
    return int(unique_id[-4:], 16)


def test_a_unique_key_holds_address_process_and_time_of_the_month() -> None:
    unique_id = UniqIdGenerator("127.0.0.1", now_ms=SteppedClock(JULY)).next()
    assert len(unique_id) == 32
    assert "7F000001" + f"{os.getpid() & 0xFFFF:04X}" == unique_id[:12]
    assert span_of(unique_id) == JULY - JULY_BEGIN
    assert unique_id.upper() == unique_id


def test_a_unique_key_of_an_ipv6_sender_has_56_digits() -> None:
    assert len(UniqIdGenerator("fd00::2").next()) == 56
    assert len(UniqIdGenerator(bytes(16)).next()) == 56


def test_an_address_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="4 or 16 bytes"):
        UniqIdGenerator(b"12345")


def test_unique_keys_grow_while_the_clock_stands_still() -> None:
    generator = UniqIdGenerator(now_ms=SteppedClock(JULY))
    made = [generator.next() for _ in range(70_000)]
    assert len(set(made)) == 70_000
    assert sorted(made) == made
    # The 16 bits of the counter were full once, so the next millisecond was borrowed.
    assert span_of(made[0]) + 1 == span_of(made[-1])


def test_unique_keys_do_not_go_back_when_the_clock_does() -> None:
    clock = SteppedClock(JULY)
    generator = UniqIdGenerator(now_ms=clock)
    before = generator.next()
    clock.now_ms -= 3_600_000
    after = generator.next()
    assert after > before
    assert span_of(before) == span_of(after)
    assert counter_of(before) + 1 == counter_of(after)
    clock.now_ms = JULY + 5
    assert span_of(generator.next()) == JULY + 5 - JULY_BEGIN


def test_the_time_in_a_unique_key_begins_again_with_the_month() -> None:
    clock = SteppedClock(JULY)
    generator = UniqIdGenerator(now_ms=clock)
    generator.next()
    clock.now_ms = int(datetime(2024, 8, 1, 0, 0, 1).astimezone().timestamp() * 1000)
    assert span_of(generator.next()) == 1000
    clock.now_ms = int(datetime(2024, 12, 31, 23, 59, 59).astimezone().timestamp() * 1000)
    december = int(datetime(2024, 12, 1).astimezone().timestamp() * 1000)
    assert clock.now_ms - december == span_of(generator.next())


def test_two_generators_of_one_process_do_not_collide() -> None:
    clock = SteppedClock(JULY)
    one, other = UniqIdGenerator(now_ms=clock), UniqIdGenerator(now_ms=clock)
    made = [generator.next() for _ in range(1000) for generator in (one, other)]
    assert len(set(made)) == 2000


def test_threads_share_a_generator_without_repeating() -> None:
    generator = UniqIdGenerator(now_ms=SteppedClock(JULY))
    made: list[list[str]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(
            target=lambda mine=mine: mine.extend(generator.next() for _ in range(2000))
        )
        for mine in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({unique_id for mine in made for unique_id in mine}) == 8000


def test_a_forked_child_makes_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = UniqIdGenerator(now_ms=SteppedClock(JULY))
    parent = generator.next()
    with generator._lock:  # held by a thread of the parent at the moment of the fork
        child_pid = os.getpid() ^ 1
        monkeypatch.setattr(os, "getpid", lambda: child_pid)
        child = generator.next()
    assert f"{child_pid & 0xFFFF:04X}" == child[8:12]
    assert parent[12:20] != child[12:20]


# --- recall handles ---


@pytest.mark.case("R1")
def test_a_recall_handle_comes_back_and_has_the_known_text() -> None:
    assert HANDLE_PARTS.encode() == HANDLE
    assert RecallHandle.decode(HANDLE) == HANDLE_PARTS


@pytest.mark.case("R1")
def test_a_recall_handle_may_lack_padding_and_carry_more_items() -> None:
    assert RecallHandle.decode(HANDLE.rstrip("=")) == HANDLE_PARTS
    longer = base64.b64decode(HANDLE, altchars=b"-_") + b" more items"
    assert RecallHandle.decode(base64.urlsafe_b64encode(longer).decode()) == HANDLE_PARTS


def encoded(raw: str) -> str:
    return base64.urlsafe_b64encode(raw.encode()).decode()


@pytest.mark.case("R1")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (None, "empty"),
        ("v1 TopicA broker-a 1700000000001 7F", "Base64"),
        (encoded("v2 TopicA broker-a 1700000000001 7F"), "version 'v2'"),
        ("garbage", "'garbage': it does not begin with 'v1'$"),
        (encoded("v1 TopicA broker-a 1700000000001"), "fewer than five"),
        (encoded("v1 TopicA broker-a 1700000000001 "), "fewer than five"),
        (encoded("v1 TopicA broker-a soon 7F"), "'soon' is no number"),
        ("+/+/", "Base64"),
        ("djEgV", "Base64"),
        ("djE=", "fewer than five"),
        ("djEg=", "Base64"),
        (HANDLE.replace("=", "=="), "Base64"),
        ("ÿÿÿÿ", "Base64"),
    ],
)
def test_a_text_that_is_no_recall_handle_is_refused(text: str | None, reason: str) -> None:
    with pytest.raises(RemotingCommandException, match=reason):
        RecallHandle.decode(text)


@pytest.mark.case("R2")
@pytest.mark.parametrize("precision_ms", [100, 200, 500, 1000])
@pytest.mark.parametrize("due_ms", [1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_999])
def test_the_time_of_a_handle_rounds_back_to_the_slot(precision_ms: int, due_ms: int) -> None:
    out_ms = timer_out_ms(due_ms, precision_ms)
    handle = RecallHandle("T", "broker-a", out_ms + 1, "AB").encode()
    assert out_ms == timer_out_ms(RecallHandle.decode(handle).timestamp_ms, precision_ms)
