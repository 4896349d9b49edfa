"""Sends of every kind as frames, and all that a broker makes of them: its answers and its files.

``python -m tests.golden.sends`` writes `sends.json` anew: do that only when an answer or a byte in
the store is meant to change, and say why. What stands there came from the broker whose sends had
ways of their own, before there was one; since then all sends of a piece are stored together, which
moved some records within the log. Kept are digests, by request and by file; ``--show NAME`` prints
the answers of one setting in full.

Every request comes alone, and then all of them in one piece of the stream. Clocks stand still but
for the end, when timers go.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.requests import Connection
from rocketmq_py.protocol.codes import RequestCode, SerializeType
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder, encode_frame
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.protocol.message_codec import encode_batch

FILE: Final = Path(__file__).with_name("sends.json")
START_MS: Final = 1_700_000_000_000
PROPERTIES: Final = "UNIQ_KEY\x017F00000100002A9F4D4B0000000000AB\x02WAIT\x01true\x02"
FIELDS: Final[Mapping[str, object]] = {
    "a": "G",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000123",
    "h": "0",
    "i": PROPERTIES,
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}
HEADER_AT: Final = 8
FOLDERS: Final = ("commitlog", "consumequeue", "timerwheel", "timerlog", "timerslice")


class Peer(Connection):
    """Keeps what the broker answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 50_000), ("127.0.0.1", 10_911))
        self.received: list[bytes] = []

    def deliver(self, frames: list[bytes]) -> None:
        """Keep them."""
        self.received += frames

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def answers(self) -> list[RemotingCommand]:
        """Give what came, decoded."""
        frames = FrameDecoder().feed(b"".join(self.received))
        return [RemotingCommand.decode(frame) for frame in frames]


def frame(
    number: int = 7,
    *,
    body: bytes = b"hello",
    head: Mapping[str, object] | None = None,
    **ext: Any,  # Any: fields as odd as a case wants them
) -> bytes:
    """A request 310 as a client writes it; a field of None is left out."""
    fields = {name: value for name, value in {**FIELDS, **ext}.items() if value is not None}
    document = {"code": 310, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": number}
    text = json.dumps({**document, "version": 477, **(head or {})}, separators=(",", ":"))
    return encode_frame(0, text.encode(), body)


def timer(name: str, value: object) -> dict[str, Any]:
    """Give the fields of a send that asks for a time."""
    return {"i": f"{name}\x01{value}\x02{PROPERTIES}"}


LONG: Final = "x" * 32_600
SENDS: Final[Mapping[str, dict[str, Any]]] = {
    "plain": {},
    "tags and keys": {"i": f"TAGS\x01a\x02KEYS\x01k1 k2\x02{PROPERTIES}"},
    "properties behind the key": {"i": f"{PROPERTIES}TAGS\x01b\x02x\x01y\x02"},
    "no separator at the end": {"i": PROPERTIES[:-1]},
    "no separator behind the key": {"i": PROPERTIES.split("\x02", maxsplit=1)[0]},
    "other letters": {"i": f"TAGS\x01é\x02{PROPERTIES}"},
    "twice a name": {"i": f"A\x011\x02A\x012\x02{PROPERTIES}"},
    "twice the key": {"i": PROPERTIES + PROPERTIES},
    "a name that ends like the key": {"i": f"XUNIQ_KEY\x01AB\x02{PROPERTIES}"},
    "an empty value": {"i": f"A\x01\x02{PROPERTIES}"},
    "an item that is no item": {"i": f"A\x02\x02{PROPERTIES}"},
    "a key of signs": {"i": 'UNIQ_KEY\x01"%d\x02'},
    "a percent sign": {"i": f"TAGS\x01%d%s\x02{PROPERTIES}"},
    "what the broker adds": {"i": f"MSG_REGION\x01mine\x02CLUSTER\x01c\x02{PROPERTIES}"},
    "zero byte": {"i": f"A\x01\x00\x02{PROPERTIES}"},
    "properties without end": {"i": f"A\x01{LONG}{LONG}\x02{PROPERTIES}"},
    "delay level": timer("DELAY", 3),
    "delay level 1": timer("DELAY", 1),
    "delay level beyond all": timer("DELAY", 99),
    "delay level 0": timer("DELAY", 0),
    "delay level of no number": timer("DELAY", "x"),
    "timer": timer("TIMER_DELAY_SEC", 10),
    "bad timer": timer("TIMER_DELAY_SEC", "x"),
    "start deliver time": timer("__STARTDELIVERTIME", START_MS + 9000),
    "start deliver time, behind": {"i": f"{PROPERTIES}__STARTDELIVERTIME\x01{START_MS + 5}\x02"},
    "start deliver time 0": timer("__STARTDELIVERTIME", 0),
    "milliseconds": {"i": f"{PROPERTIES}TIMER_DELAY_MS\x011500\x02"},
    "milliseconds at the end": {"i": f"{PROPERTIES}TIMER_DELAY_MS\x0199500"},
    "one millisecond": {"i": f"{PROPERTIES}TIMER_DELAY_MS\x011\x02"},
    "an instant": {"i": f"TAGS\x01a\x02TIMER_DELIVER_MS\x01{START_MS + 12345}\x02{PROPERTIES}"},
    "an instant, no WAIT": {
        "i": f"{PROPERTIES.partition('WAIT')[0]}TIMER_DELIVER_MS\x01{START_MS + 777_000}\x02"
    },
    "an instant in the past": {"i": f"{PROPERTIES}TIMER_DELIVER_MS\x01{START_MS - 1}\x02"},
    "this instant": {"i": f"{PROPERTIES}TIMER_DELIVER_MS\x01{START_MS}\x02"},
    "seconds 0": timer("TIMER_DELAY_SEC", 0),
    "seconds with a sign": timer("TIMER_DELAY_SEC", "+5"),
    "seconds with zeros": timer("TIMER_DELAY_SEC", "005"),
    "seconds of other letters": timer("TIMER_DELAY_SEC", "٣"),
    "longer than ever": timer("TIMER_DELAY_MS", 9 * 10**14),
    "beyond 64 bits": timer("TIMER_DELAY_MS", 10**30),
    "the longest": timer("TIMER_DELAY_MS", 259_200_000),
    "one more": timer("TIMER_DELAY_MS", 259_200_001),
    "two requests": {"i": f"TIMER_DELAY_MS\x019000\x02TIMER_DELAY_SEC\x0120\x02{PROPERTIES}"},
    "two requests, the winner first": {
        "i": f"TIMER_DELAY_SEC\x0130\x02TIMER_DELIVER_MS\x01junk\x02{PROPERTIES}"
    },
    "twice the same": {"i": f"TIMER_DELAY_MS\x019000\x02TIMER_DELAY_MS\x0120000\x02{PROPERTIES}"},
    "a level wins": {"i": f"TIMER_DELAY_MS\x019000\x02DELAY\x012\x02{PROPERTIES}"},
    "a level of 0": {"i": f"TIMER_DELAY_MS\x019000\x02DELAY\x010\x02{PROPERTIES}"},
    "a name like a request": timer("XTIMER_DELAY_MS", 9000),
    "a request in a value": {"i": f"x\x01TIMER_DELAY_MS\x019000\x02{PROPERTIES}"},
    "a request in the key": {"i": "UNIQ_KEY\x01TIMER_DELAY_MS\x019000\x02"},
    "a number in the key": {"i": "TIMER_DELAY_MS\x019000\x02UNIQ_KEY\x01AB9000CD\x02"},
    "the number twice": {"i": f"KEYS\x019000\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"},
    "a zero byte for a number": timer("TIMER_DELAY_MS", "\0"),
    "a zero byte beside a number": {"i": f"A\x01\0\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"},
    "a timer with the broker's names": {
        "i": f"REAL_TOPIC\x01x\x02REAL_QID\x017\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"
    },
    "a timer with a timer's names": {
        "i": f"TIMER_OUT_MS\x011\x02TIMER_DUE_MS\x013\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"
    },
    "a timer with a percent sign": {"i": f"TAGS\x01%b%d\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"},
    "a timer, compressed": {"f": "769", **timer("TIMER_DELAY_MS", 9000)},
    "a timer of a transaction": {
        "i": f"PGROUP\x01G\x02TRAN_MSG\x01true\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"
    },
    "a timer for a retry topic": {"b": "%RETRY%G", **timer("TIMER_DELAY_MS", 9000)},
    "a timer for a new topic": {"b": "new", **timer("TIMER_DELAY_MS", 9000)},
    "a timer with long properties": {"i": f"A\x01{LONG}\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"},
    "a mark": {"i": f"TIMER_DEL_UNIQKEY\x01T+AB\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"},
    "the timer's own": timer("TIMER_OUT_MS", 1),
    "prepared": {"f": "4"},
    "prepared by property": {"i": f"TRAN_MSG\x01true\x02PGROUP\x01G\x02{PROPERTIES}"},
    "compressed": {"f": "769", "body": b"\x78\x9c\x03\x00\x00\x00\x00\x01"},
    "several tags": {"f": "2"},
    "an inner batch": {"f": "128"},
    "a user's flag": {"h": "5"},
    "reconsumed": {"j": "2"},
    "with a maximum": {"l": "16"},
    "batch": {"m": "true"},
    "any queue": {"e": "-1"},
    "a queue too far": {"e": "99"},
    "queue of no number": {"e": "x"},
    "unknown topic": {"b": "new"},
    "unknown topic, no template": {"b": "newer", "c": "none"},
    "unknown topic, unit mode": {"b": "unit", "k": "true"},
    "a forbidden topic": {"b": "SCHEDULE_TOPIC_XXXX"},
    "the timer topic": {"b": "rmq_sys_wheel_timer"},
    "a topic that cannot be": {"b": "a b"},
    "a topic that is too long": {"b": "a" * 200},
    "retry topic": {"b": "%RETRY%G"},
    "retry topic, a level": {"b": "%RETRY%G", "j": "1", **timer("DELAY", 4)},
    "retry topic, at the limit": {"b": "%RETRY%G", "j": "16", **timer("DELAY", 4)},
    "retry topic, often enough": {"b": "%RETRY%G", "j": "17", "l": "16", **timer("DELAY", 4)},
    "retry topic, old client": {
        "b": "%RETRY%G",
        "j": "3",
        "l": "2",
        "head": {"version": 1},
        **timer("DELAY", 4),
    },
    "retry topic, no such group": {"b": "%RETRY%a b"},
    "no topic": {"b": None},
    "no group": {"a": None},
    "default queues of no number": {"d": "many"},
    "born of no number": {"g": "1_0"},
    "born before 1970": {"g": "-5"},
    "born beyond 64 bits": {"g": "9" * 30},
    "numbers as numbers": {"e": 1, "f": 0, "g": 1_700_000_000_123, "h": 0},
    "no body": {"body": b""},
    "a body of a megabyte": {"body": b"x" * 1_048_577},
    "negative opaque": {"head": {"opaque": -9}},
    "oneway": {"head": {"flag": 2}},
    "no ext fields": {"head": {"extFields": None}},
}
"""By name, how a request differs from the usual one; see `frame`."""


def _batch(*items: tuple[bytes, str]) -> bytes:
    return encode_batch([(0, body, text.encode()) for body, text in items])


BATCHES: Final[Mapping[str, dict[str, Any]]] = {
    "batch of two": {"body": _batch((b"one", PROPERTIES), (b"two", PROPERTIES))},
    "batch with tags": {"body": _batch((b"one", "TAGS\x01a\x02"), (b"two", "TAGS\x01b\x02"))},
    "batch without a key": {"body": _batch((b"one", ""), (b"two", "")), "i": "WAIT\x01false\x02"},
    "batch with a timer outside": {"body": _batch((b"one", "")), **timer("TIMER_DELAY_MS", 9000)},
    "batch with a timer inside": {"body": _batch((b"one", f"DELAY\x013\x02{PROPERTIES}"))},
    "batch of a transaction": {"body": _batch((b"one", "")), **timer("TRAN_MSG", "true")},
    "batch of nothing": {"body": b""},
    "batch that is none": {"body": b"junk"},
    "batch to a retry topic": {"body": _batch((b"one", "")), "b": "%RETRY%G"},
    "batch to any queue": {"body": _batch((b"one", PROPERTIES)), "e": "-1"},
}


def _singles() -> Iterator[tuple[str, Callable[[int, list[RemotingCommand]], bytes]]]:
    """Give every request by name: how its frame is made of its number and the answers so far."""
    for name, fields in SENDS.items():
        yield name, lambda number, _, fields=fields: frame(number, **fields)  # type: ignore[misc]
    for name, fields in BATCHES.items():
        head = {"code": int(RequestCode.SEND_BATCH_MESSAGE)}
        yield name, lambda number, _, f=fields, h=head: frame(number, head=h, **f)  # type: ignore[misc]
    for number, (name, value) in enumerate(
        [
            *(("TIMER_DELAY_MS", one) for one in (9000, 1, 9001, 500_000, 9000, 700, 1500, 2500)),
            *(("TIMER_DELAY_SEC", one) for one in (9, 1, 10, 259_200, 2, 9)),
            *(("TIMER_DELIVER_MS", START_MS + one) for one in (9000, 1, 1000, 1001, 3 * 10**7)),
            *(("__STARTDELIVERTIME", START_MS + one) for one in (9000, 2, 60_000)),
        ]
    ):
        text, queue = f"UNIQ_KEY\x01AB{number:030d}\x02{name}\x01{value}\x02", str(number % 4)
        yield f"timer {number}", lambda n, _, i=text, e=queue: frame(n, i=i, e=e)  # type: ignore[misc]
        text = f"UNIQ_KEY\x01CD{number:030d}\x02TAGS\x01t{number % 3}\x02"
        yield f"plain {number}", lambda n, _, i=text, e=queue: frame(n, i=i, e=e)  # type: ignore[misc]
    for serialize_type in SerializeType:
        for text in (PROPERTIES, f"TIMER_DELAY_MS\x019000\x02{PROPERTIES}"):
            header = SendMessageRequestHeader.from_ext_v2(
                {name: str(value) for name, value in {**FIELDS, "i": text}.items()}
            )
            yield (
                f"long names {serialize_type} {len(text)}",
                lambda number, _, header=header, kind=serialize_type: RemotingCommand(  # type: ignore[misc]
                    RequestCode.SEND_MESSAGE,
                    opaque=number,
                    ext_fields=header.to_ext(),
                    body=b"long",
                    serialize_type=kind,
                ).encode(),
            )


def _later() -> Iterator[tuple[str, Callable[[int, list[RemotingCommand]], bytes]]]:
    """Give the requests that name a place of an earlier one: they always come alone."""

    def ask(
        code: int, fields: Callable[[dict[int, RemotingCommand]], dict[str, str]]
    ) -> Callable[[int, list[RemotingCommand]], bytes]:
        def made(number: int, answers: list[RemotingCommand]) -> bytes:
            ext = fields({one.opaque: one for one in answers})
            return RemotingCommand(code, opaque=number, ext_fields=ext, version=477).encode()

        return made

    def told(answers: dict[int, RemotingCommand], name: str, field: str) -> str:
        """Give a field of an answer, or 0 when that request was refused."""
        return answers[NAMES.index(name)].ext_fields.get(field, "0")

    def place(answers: dict[int, RemotingCommand], name: str) -> str:
        return str(int(told(answers, name, "msgId")[-16:], 16))

    for send, outcome in (
        ("prepared by property", 8),
        ("a timer of a transaction", 8),
        ("prepared by property", 12),
        ("prepared by property", 0),
        ("plain", 8),
    ):
        yield (
            f"end {send} with {outcome}",
            ask(
                RequestCode.END_TRANSACTION,
                lambda answers, send=send, outcome=outcome: {  # type: ignore[misc]
                    "producerGroup": "G",
                    "tranStateTableOffset": told(answers, send, "queueOffset"),
                    "commitLogOffset": place(answers, send),
                    "commitOrRollback": str(outcome),
                    "fromTransactionCheck": "false",
                    "msgId": "m",
                },
            ),
        )
    for group, level, most in (
        ("G", 0, 16),
        ("G", 3, 16),
        ("G", -1, 16),
        ("G", 0, 0),
        ("a b", 0, 1),
    ):
        yield (
            f"send back to {group}, level {level}, at most {most}",
            ask(
                RequestCode.CONSUMER_SEND_MSG_BACK,
                lambda answers, group=group, level=level, most=most: {  # type: ignore[misc]
                    "offset": place(answers, "tags and keys"),
                    "group": group,
                    "delayLevel": str(level),
                    "originMsgId": "m",
                    "originTopic": "T",
                    "unitMode": "false",
                    "maxReconsumeTimes": str(most),
                },
            ),
        )
    yield (
        "send back what is not there",
        ask(
            RequestCode.CONSUMER_SEND_MSG_BACK,
            lambda _: {"offset": "999999999", "group": "G", "delayLevel": "0"},
        ),
    )
    for key in ("AB" + f"{3:030d}", "unknown"):
        handle = RecallHandle("T", "broker-a", START_MS + 500_000, key).encode()
        yield (
            f"recall {key[-7:]}",
            ask(
                RequestCode.RECALL_MESSAGE,
                lambda _, handle=handle: {  # type: ignore[misc]
                    "producerGroup": "G",
                    "topic": "T",
                    "recallHandle": handle,
                },
            ),
        )


SINGLES: Final = list(_singles())
LATER: Final = list(_later())
NAMES: Final = [name for name, _ in [*SINGLES, *LATER]]
"""The name of a request stands at its opaque."""

SMALL_FILES: Final = {"mappedFileSizeCommitLog": 2_097_152}
SETTINGS: Final[Mapping[str, dict[str, Any]]] = {
    "5.x": {},
    "4.9": {"profile": "rocketmq-4.9"},
    "upstream": {"defaults": "upstream"},
    "proxy": {"limits": "proxy"},
    "sliced": {"config": {"timerEngine": "sliced"}},
    "levels in the wheel": {"config": {"routeDelayLevelToWheel": "true"}},
    "rolling": {"config": {"timerRollWindowSlot": 3, "timerPrecisionMs": 100}},
    "short files": {
        "config": {
            "maxMessageSize": 3000,
            "mappedFileSizeCommitLog": 8192,
            "mappedFileSizeTimerLog": 52 * 3 + 20,
        }
    },
    "read only": {"config": {"brokerPermission": 4}},
    "no timers": {"config": {"timerWheelEnable": "false"}},
    "crowded": {"config": {"timerCongestNumEachSlot": 3}},
    "at once when too far": {"config": {"outOfRangePolicy": "immediate", "timerMaxDelaySec": 20}},
}


Change = Callable[[EmbeddedBroker, BrokerParts], None]
"""What is done to a broker before requests come."""


def outcome(
    setting: str, *, in_one_piece: bool, changes: Sequence[Change] = ()
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Give the answers by request, and the files by name without their empty ends."""
    clock = VirtualClock(start=datetime.fromtimestamp(START_MS / 1000, UTC))
    arguments = dict(SETTINGS[setting])
    config = SMALL_FILES | arguments.pop("config", {})
    with TemporaryDirectory() as folder:
        with EmbeddedBroker(
            clock=clock,
            session_clock=clock,
            tcp=False,
            topics=["T"],
            seed=5,
            store=folder,
            config=config,
            **arguments,
        ) as broker:
            node = broker.slot.node
            assert node is not None
            endpoint, peer = node.parts.endpoint, Peer()
            endpoint.connected(peer)
            for change in changes:
                change(broker, node.parts)
            number = 0
            singles = [make(number, []) for number, (_, make) in enumerate(SINGLES)]
            for piece in [b"".join(singles)] if in_one_piece else singles:
                endpoint.receive(peer, FrameDecoder().feed(piece))
                clock.advance(0)  # else the driver's thread does what is due, at some time
            for number, (_, make) in enumerate(LATER, len(SINGLES)):
                piece = make(number, peer.answers())
                endpoint.receive(peer, FrameDecoder().feed(piece))
                clock.advance(0)
            clock.advance(12)
            address = node.parts.address.encode()  # with a number: each broker has another
            answers = {
                NAMES[one.opaque] if one.opaque >= 0 else "negative opaque": raw[
                    HEADER_AT:
                ].replace(address, b"node")
                for one, raw in zip(peer.answers(), peer.received, strict=True)
            }
        found = {}
        for path in sorted(Path(folder).rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and name.partition("/")[0] in FOLDERS:
                found[name] = path.read_bytes().rstrip(b"\0")
    return answers, found


def digests(setting: str, *, in_one_piece: bool, changes: Sequence[Change] = ()) -> dict[str, Any]:
    """Give what is kept of an outcome: of the answers, in the order of `NAMES`, and the files."""
    answers, files = outcome(setting, in_one_piece=in_one_piece, changes=changes)
    return {
        "answers": " ".join(_digest(answers.get(name, b""))[:6] for name in NAMES),
        "files": {name: _digest(data) for name, data in files.items()},
    }


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:12] if data else "-"


MODES: Final = ("alone", "in one piece")


def main() -> None:
    """Write the file, or show the answers of one setting."""
    if "--show" in sys.argv:
        answers, files = outcome(sys.argv[2], in_one_piece="--piece" in sys.argv)
        for name, data in answers.items():
            print(f"{name}: {data!r}")
        for name, data in files.items():
            print(f"{name}: {len(data)} {_digest(data)}")
        return
    kept = {
        setting: {mode: digests(setting, in_one_piece=mode == MODES[1]) for mode in MODES}
        for setting in SETTINGS
    }
    FILE.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
