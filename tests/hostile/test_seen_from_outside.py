"""A damaged, removed or crowded store as its users see it: by messages, answers and files only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.errors import StoreError
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode
from rocketmq_py.protocol.message_codec import decode_records
from tests.hostile.door_watch import DoorWatch
from tests.unit.embedded_broker.wire_peer import WirePeer, pull_fields

MIB = 1024 * 1024
SKIP = {"damagedRecords": "skip"}
HELD_MS_MAX = 25.0
"""CPU time: an entry needs 0.2 ms, twenty thousand need 80 to 110."""


@contextmanager
def opened(
    store: Path,
    engine: Literal["wheel", "sliced"] = "wheel",
    config: Mapping[str, object] | None = None,
) -> Iterator[tuple[EmbeddedBroker, WirePeer]]:
    """A broker of a folder and a client of it."""
    with (
        EmbeddedBroker(store=store, clock=VirtualClock(), engine=engine, config=config) as broker,
        WirePeer(broker.addr) as peer,
    ):
        yield broker, peer


def pulled(peer: WirePeer, topic: str) -> list[bytes]:
    """Read queue 0 to its end or to a refusal, as a client does."""
    found: list[bytes] = []
    at, flags = 0, str(int(PullSysFlag.SUBSCRIPTION))
    while True:
        fields = pull_fields(topic, offset=at, sysFlag=flags)
        answer = peer.ask(RequestCode.PULL_MESSAGE, fields)
        if answer.code == 0:
            found += [one.body for one in decode_records(answer.body, check_crc=False)]
        following = int(answer.ext_fields.get("nextBeginOffset", at))
        if following <= at:
            return found
        at = following


def flip(store: Path, body: bytes) -> None:
    """Change a bit of the first body that begins so."""
    log = min((store / "commitlog").iterdir())
    with log.open("r+b") as file:  # not rewritten as a whole: it is sparse
        at = file.read(10 * MIB).index(body)
        file.seek(at)
        file.write(bytes([body[0] ^ 1]))


def wait_saved(broker: EmbeddedBroker, store: Path, topic: str) -> None:
    """Wait until a topic is in the file."""
    file, word = store / "config" / "topics.json", f'"{topic}"'

    def text() -> str:
        try:
            return file.read_text()
        except FileNotFoundError:  # between two renames
            return ""

    broker.wait_for(lambda _: word in text(), timeout=20)


def test_one_flipped_bit_costs_one_message_when_damage_is_skipped(tmp_path: Path) -> None:
    sent = [b"body %03d" % number for number in range(500)]
    with opened(tmp_path) as (_, peer):
        for body in sent:
            assert peer.send("T", body, e="0").code == 0
    flip(tmp_path, b"body 007")
    with opened(tmp_path, config=SKIP) as (broker, peer):
        assert pulled(peer, "T") == [one for one in sent if one != b"body 007"]
        assert "damaged at" in "\n".join(broker.recovery.problems)


def test_a_flipped_body_far_before_the_end_of_a_long_log_is_not_delivered(tmp_path: Path) -> None:
    sent = [b"body %03d" % number + bytes(MIB) for number in range(24)]
    with opened(tmp_path) as (_, peer):
        for body in sent:
            assert peer.send("T", body, e="0").code == 0
    flip(tmp_path, b"body 001")
    damaged = sent.pop(1)
    with opened(tmp_path) as (_, peer):
        assert set(pulled(peer, "T")) <= set(sent), damaged[:8]
    with opened(tmp_path, config=SKIP) as (_, peer):
        assert pulled(peer, "T") == sent


def test_a_log_whose_first_file_was_deleted_is_not_opened_without_a_word(tmp_path: Path) -> None:
    size = {"mappedFileSizeCommitLog": 64 * 1024}
    with opened(tmp_path, config=size) as (_, peer):
        for _ in range(20):
            assert peer.send("T", bytes(10_000), e="0").code == 0
    first, *others = sorted((tmp_path / "commitlog").iterdir())
    assert others
    first.unlink()
    with (
        pytest.raises(StoreError, match=r"commitlog begins at 65536, .* store repair"),
        opened(tmp_path, config=size),
    ):
        pass


def test_one_topic_more_among_many_is_saved_without_holding_the_door(tmp_path: Path) -> None:
    with opened(tmp_path) as (broker, _):
        for number in range(20_000):
            broker.topics.create(f"T{number}", queues=1)
        wait_saved(broker, tmp_path, "T19999")
        watch, held = DoorWatch(broker._parts().door), []
        for number in range(3):
            watch.forget()
            broker.topics.create(f"Late{number}", queues=1)
            wait_saved(broker, tmp_path, f"Late{number}")
            held.append(watch.longest_ms)
    assert min(held) < HELD_MS_MAX


def test_a_deleted_table_of_topics_that_nobody_used_is_no_secret(tmp_path: Path) -> None:
    with opened(tmp_path) as (broker, _):
        broker.topics.create("Unused", queues=3)
    (tmp_path / "config" / "topics.json").unlink()
    (tmp_path / "config" / "topics.json.bak").unlink(missing_ok=True)
    with opened(tmp_path) as (broker, _):
        assert "config/topics.json is missing" in "\n".join(broker.recovery.problems)


@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_a_timer_log_that_was_cut_short_is_not_blamed_on_an_option(
    tmp_path: Path, engine: Literal["wheel", "sliced"]
) -> None:
    with opened(tmp_path, engine=engine) as (broker, peer):
        for number in range(30):
            later = {"TIMER_DELAY_SEC": str(number + 60)}
            assert peer.send("T", b"%d" % number, later, e="0").code == 0
        broker._parts().flush_everything()
    folder = "timerlog" if engine == "wheel" else "dcommitlog"
    log = next(one for one in sorted((tmp_path / folder).rglob("*")) if one.is_file())
    with log.open("r+b") as file:
        file.truncate(100)
    with (
        pytest.raises(StoreError, match=rf"^{folder}/.* 100 ") as refused,
        opened(tmp_path, engine),
    ):
        pass
    assert "mappedFileSize" not in str(refused.value)
    with opened(tmp_path, engine, SKIP) as (broker, peer):
        assert folder in "\n".join(broker.recovery.problems)
        broker.clock.advance(200)
        assert sorted(pulled(peer, "T")) == sorted(b"%d" % one for one in range(30))
