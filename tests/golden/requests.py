"""Sends and pulls in every form of header, and the exact bytes that a broker answers and stores.

``python -m tests.golden.requests`` writes `requests.json` anew: do that only when an answer or a
stored byte is meant to change, and say why. It was recorded while usual sends and pulls were still
read by code of their own; that code and the general one gave the same bytes. Kept are digests of
the answers, by row, and of the files; ``--show NAME`` prints the answers to one row in full.

Every request comes `TIMES` times in a row, since that code began to work at the second and third
request of a kind. The answers have to be the same under each of `CONDITIONS`: interceptors, guards
and put hooks that change nothing must change nothing. Clocks stand still.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.guards import Asked
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Request
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.tables.accounts.plain import PlainAccount, PlainAcl
from rocketmq_py.protocol import signing
from rocketmq_py.protocol.codes import RequestCode, SerializeType
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder, encode_frame
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from tests.golden.sends import BATCHES, FIELDS, PROPERTIES, START_MS, Peer
from tests.unit.embedded_broker.wire_peer import consumer, pull_fields, topic_fields

FILE: Final = Path(__file__).with_name("requests.json")
TIMES: Final = 4
HEADER_AT: Final = 8
OPAQUES: Final = 10
"""The requests of one row have so many opaques."""

SEND: Final = {name: str(value) for name, value in FIELDS.items()}
LONG_SEND: Final = SendMessageRequestHeader.from_ext_v2(SEND).to_ext()
PULL: Final = pull_fields("T")
TIMED: Final = f"{PROPERTIES}TIMER_DELAY_MS\x019000\x02"
KEPT_MAX: Final = 4096
"""Bytes of a header that the journal keeps whole; longer ones had no way of their own."""


class Row(NamedTuple):
    """One request: its header is a text in which ``<N>`` stands for the opaque."""

    name: str
    header: str | dict[str, Any]
    body: bytes = b""
    kind: int = SerializeType.JSON

    def frame(self, opaque: int) -> bytes:
        """Write it with this opaque."""
        if isinstance(self.header, dict):
            return RemotingCommand(
                **self.header, opaque=opaque, body=self.body, serialize_type=self.kind
            ).encode()
        return encode_frame(0, self.header.replace("<N>", str(opaque)).encode(), self.body)


def text(code: object, fields: Mapping[str, object] | str, **outer: object) -> str:
    """Write a header as Java does; ``fields`` may be written already, None leaves a key out."""
    ext = fields if isinstance(fields, str) else json.dumps(fields, separators=(",", ":"))
    values = {
        "code": json.dumps(code),
        "extFields": ext,
        "flag": "0",
        "language": '"JAVA"',
        "opaque": "<N>",
        "serializeTypeCurrentRPC": '"JSON"',
        "version": "477",
    } | {name: value if value is None else str(value) for name, value in outer.items()}
    shown = (f'"{name}":{one}' for name, one in values.items() if one is not None)
    return f"{{{','.join(shown)}}}"


def written(fields: Mapping[str, object]) -> str:
    """Write extra fields, without the braces."""
    return json.dumps(fields, separators=(",", ":"))[1:-1]


OUTER: Final[Mapping[str, dict[str, object]]] = {
    "of version 0": {"version": 0},
    "of an old version": {"version": 1},
    "of a later version": {"version": 999_999},
    "of a negative version": {"version": -1},
    "of no version": {"version": None},
    "whose version is null": {"version": "null"},
    "whose version is a text": {"version": '"477"'},
    "whose flag is missing": {"flag": None},
    "whose flag is a text": {"flag": '"0"'},
    "whose flag has another bit": {"flag": 4},
    "that wants no answer": {"flag": 2},
    "marked as an answer": {"flag": 1},
    "of an unknown language": {"language": '"ZIG"'},
    "whose language is a number": {"language": 3},
    "of no language": {"language": None},
    "with an empty remark": {"remark": '""'},
    "with a remark": {"remark": '"hello"'},
    "whose remark is null": {"remark": "null"},
    "whose opaque is a text": {"opaque": '"<N>"'},
    "whose opaque is negative": {"opaque": "-<N>"},
    "with an unknown key": {"other": "[1,{}]"},
    "with the opaque twice": {"opaque": '5,"opaque":<N>'},
    "with the code twice": {"version": '477,"code":'},
    "with its fields twice": {"flag": '0,"extFields":{"b":"X"},"extFields":'},
}
"""How the header of a request differs outside of its fields; the last two are completed."""


def _outer(code: int, fields: Mapping[str, object], body: bytes) -> Iterator[Row]:
    for name, outer in OUTER.items():
        done = dict(outer)
        if name == "with the code twice":
            done["version"] = f"{outer['version']}{code}"
        elif name == "with its fields twice":
            done["flag"] = f"{outer['flag']}{json.dumps(fields)}"
        yield Row(f"{code} {name}", text(code, fields, **done), body)
    yield Row(f"{code} whose code is a text", text(str(code), fields), body)


def _orders(code: int, fields: Mapping[str, object], body: bytes) -> Iterator[Row]:
    turned = dict(reversed(list(fields.items())))
    ordered = dict(sorted(fields.items()))
    yield Row(f"{code} as Java writes it", text(code, fields), body)
    yield Row(f"{code} with its fields from behind", text(code, turned), body)
    go = (
        f'{{"code":{code},"language":"GO","version":317,"opaque":<N>,"flag":0,"remark":"",'
        f'"extFields":{json.dumps(ordered, separators=(",", ":"))}}}'
    )
    yield Row(f"{code} as Go writes it", go, body)
    spaced = text(code, json.dumps(fields, indent=1)).replace(":<N>,", " : <N> ,\n")
    yield Row(f"{code} with blanks", spaced, body)
    yield Row(f"{code} with blanks before", " " + text(code, fields), body)
    yield Row(f"{code} with blanks behind", text(code, fields) + "\n", body)
    last = text(code, fields, opaque=None)[:-1] + ',"opaque":<N>}'
    yield Row(f"{code} with the opaque last", last, body)
    first = '{"opaque":<N>,' + text(code, fields, opaque=None)[1:]
    yield Row(f"{code} with the opaque first", first, body)
    escaped = "".join(f"\\u{ord(one):04x}" for one in next(iter(fields)))
    name = next(iter(fields))
    yield Row(
        f"{code} with an escaped name",
        text(code, fields).replace(f'"{name}":', f'"{escaped}":', 1),
        body,
    )
    yield Row(f"{code} with an unknown field", text(code, {"zz": "1", **fields}), body)
    yield Row(f"{code} with an empty name", text(code, {**fields, "": ""}), body)
    yield Row(f"{code} with a long field", text(code, {**fields, "zz": "x" * KEPT_MAX}), body)
    yield Row(f"{code} without fields", text(code, "{}"), body)
    yield Row(f"{code} whose fields are null", text(code, "null"), body)
    yield Row(
        f"{code}, a binary header",
        {"code": code, "ext_fields": dict(fields)},
        body,
        SerializeType.ROCKETMQ,
    )


NUMBERS: Final = ("01", "+1", "-0", "-1", " 1", "1_0", "1.0", "1e3", "\u0661", "x", "", "99")
LONG_NUMBERS: Final = (str(2**31), str(2**63), "9" * 30)
ODD_VALUES: Final = (1, 0, True, None, 1.5, [1], {"a": 1})


def _values(
    code: int, fields: Mapping[str, str], body: bytes, names: str, numbers: str
) -> Iterator[Row]:
    for name in names.split():
        left = {key: value for key, value in fields.items() if key != name}
        if name != "i":  # the broker would make a UNIQ_KEY of its own
            yield Row(f"{code} without {name}", text(code, left), body)
        twice = f"{{{written(fields)},{written({name: fields.get(name, '')})}}}"
        yield Row(f"{code} with {name} twice", text(code, twice), body)
        other = f"{{{written({name: 'other'})},{written(fields)}}}"
        yield Row(f"{code} with another {name} before", text(code, other), body)
    for name in numbers.split():
        for value in (*NUMBERS, *LONG_NUMBERS, *ODD_VALUES):
            shown = json.dumps(value)
            yield Row(f"{code} with {name} {shown}", text(code, {**fields, name: value}), body)


def _sends() -> Iterator[Row]:
    body = b"hello"
    for code, fields in ((310, SEND), (10, LONG_SEND), (320, SEND)):
        content = body
        if code == RequestCode.SEND_BATCH_MESSAGE:
            content = BATCHES["batch of two"]["body"]
        yield from _orders(code, fields, content)
        yield from _outer(code, fields, content)
    yield from _values(310, SEND, body, "a b c d e f g h i j k l m n", "d e f g h j l")
    for name in ("k", "m"):
        for value in ("TRUE", "yes", "", True):
            yield Row(
                f"310 with {name} {json.dumps(value)}", text(310, {**SEND, name: value}), body
            )
    other: dict[str, dict[str, object]] = {
        "of a timer": {"i": TIMED},
        "of a plain one after a timer": {},
        "of another queue": {"e": "2"},
        "of another time": {"g": "1700000000124"},
        "of a short time": {"g": "170000"},
        "of a key of signs": {"i": 'UNIQ_KEY\x01"%d\\\x02'},
        "of a key of other letters": {"i": "UNIQ_KEY\x01\u00e9\u00e9\x02"},
        "of an unknown topic": {"b": "new"},
        "of an empty topic": {"b": ""},
        "of an empty group": {"a": ""},
        "of an escaping broker": {"a": "InnerProducerGroup_1"},
        "of a retry topic": {"b": "%RETRY%G"},
        "of a retry topic, again": {"b": "%RETRY%G", "j": "3", "l": "16"},
        "of a name that quotes": {"b": 'a"g":"1"'},
        "that looks signed": {"Signature": "A" * 27 + "="},
        "that looks signed first": {"Signature": "x", **SEND},
        "of a topic with a fault": {"b": "Faulty"},
        "of properties that quote": {"i": f'{PROPERTIES}A\x01","j":"9"\x02'},
        "of text beyond the BMP": {"i": f"{PROPERTIES}A\x01\U0001f600\x02"},
        "of a half message": {"f": "4", "i": f"TRAN_MSG\x01true\x02PGROUP\x01G\x02{PROPERTIES}"},
    }
    for name, differs in other.items():
        yield Row(f"310 {name}", text(310, {**SEND, **differs}), body)
    yield Row("310 with an escaped text", text(310, SEND).replace("UNIQ", "\\u0055NIQ"), body)
    yield Row("310 of no body", text(310, SEND))
    yield Row("310 of a timer, no body", text(310, {**SEND, "i": TIMED}))
    for name, batch in BATCHES.items():
        head = {**SEND, **{key: one for key, one in batch.items() if key != "body"}}
        yield Row(f"320 {name}", text(320, head), batch["body"])
    yield Row("10 of a batch", text(10, {**LONG_SEND, "batch": "true"}), b"junk")


def _pulls() -> Iterator[Row]:
    for code in (11, 361):
        yield from _orders(code, PULL, b"")
        yield from _outer(code, PULL, b"")
    names = " ".join(PULL)
    numbers = "queueId queueOffset maxMsgNums sysFlag commitOffset suspendTimeoutMillis subVersion"
    yield from _values(11, PULL, b"", f"{names} expressionType maxMsgBytes", numbers)
    other: dict[str, dict[str, str]] = {
        "with a body": {},
        "of another offset": {"queueOffset": "3", "maxMsgNums": "7"},
        "that commits": {"sysFlag": "5", "commitOffset": "2", "consumerGroup": "all"},
        "that commits nothing": {"sysFlag": "5", "commitOffset": "-1"},
        "of the heartbeat's tags": {"sysFlag": "0"},
        "of all": {"sysFlag": "0", "consumerGroup": "all"},
        "of a later subscription": {"sysFlag": "0", "consumerGroup": "all", "subVersion": "9"},
        "of tags": {"subscription": "B", "expressionType": "TAG"},
        "of tags that nobody has": {"subscription": "C"},
        "of SQL": {"subscription": "a > 5", "expressionType": "SQL92"},
        "of an unknown kind": {"subscription": "a", "expressionType": "REGEX"},
        "at the end": {"queueOffset": "40"},
        "behind the end": {"queueOffset": "41"},
        "far behind the end": {"queueOffset": str(10**17)},
        "of an unknown topic": {"topic": "Nothing"},
        "of a topic that is shut": {"topic": "Shut"},
        "of an unknown queue": {"queueId": "9"},
        "of an unknown group": {"consumerGroup": "nobody", "sysFlag": "0"},
        "of a retry topic": {"topic": "%RETRY%consumers"},
        "of some bytes": {"maxMsgBytes": "300"},
        "of a name that quotes": {"consumerGroup": '"queueOffset":"7'},
        "of a topic with a fault": {"topic": "Faulty"},
    }
    for name, fields in other.items():
        yield Row(f"11 {name}", text(11, {**PULL, **fields}), b"x" * (name == "with a body"))


SENDS: Final = list(_sends())
PULLS: Final = list(_pulls())
ROWS: Final = [*PULLS, *SENDS]
"""Pulls come first, so that what they get does not depend on the sends of the table."""


# -- conditions -------------------------------------------------------------------------------


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


def _intercepted(_broker: EmbeddedBroker, parts: BrokerParts) -> None:
    parts.endpoint.interceptors.append(Onlooker())


def _guarded(_broker: EmbeddedBroker, parts: BrokerParts) -> None:
    parts.guards.append(Onlooker())


def _hooked(_broker: EmbeddedBroker, parts: BrokerParts) -> None:
    parts.store.hooks.listed.append(Onlooker())


def _faulty(broker: EmbeddedBroker, _parts: BrokerParts) -> None:
    broker.faults.on(None, topic="no such topic").drop()


CONDITIONS: Final[Mapping[str, tuple[Callable[[EmbeddedBroker, BrokerParts], None], ...]]] = {
    "plain": (),
    "an interceptor": (_intercepted,),
    "a guard": (_guarded,),
    "a put hook": (_hooked,),
    "a fault for others": (_faulty,),
    "all of them": (_intercepted, _guarded, _hooked, _faulty),
}

MODES: Final = ("alone", "in one piece")
"""All requests of a row come one by one, or together in one piece of the stream."""


@contextmanager
def broker_of(folder: str, **arguments: Any) -> Iterator[tuple[EmbeddedBroker, BrokerParts, Peer]]:
    """A broker with 40 messages of two tags in queue 0, and a peer of two groups of consumers."""
    clock = VirtualClock(start=datetime.fromtimestamp(START_MS / 1000, UTC))
    with EmbeddedBroker(
        clock=clock,
        session_clock=clock,
        tcp=False,
        topics=["T", "Faulty"],
        seed=5,
        store=folder,
        config={"mappedFileSizeCommitLog": 4_194_304},
        **arguments,
    ) as broker:
        parts, peer = broker._parts(), Peer()
        parts.endpoint.connected(peer)
        own = Peer()
        parts.endpoint.connected(own)
        say(parts, own, RemotingCommand(17, ext_fields=topic_fields("Shut", perm=2)).encode())
        for number in range(40):
            fields = {**SEND, "e": "0", "i": f"{PROPERTIES}TAGS\x01{'AB'[number % 2]}\x02"}
            say(parts, own, Row("", text(310, fields), b"%d" % number).frame(number))
        beat = {
            "clientID": "c1",
            "producerDataSet": [],
            "consumerDataSet": [consumer("consumers", {"T": "A"}), consumer("all", {"T": "*"})],
        }
        say(parts, peer, RemotingCommand(34, body=json.dumps(beat).encode()).encode())
        peer.received.clear()
        yield broker, parts, peer


def say(parts: BrokerParts, peer: Peer, *pieces: bytes) -> None:
    """Let each piece of the stream arrive."""
    for piece in pieces:
        parts.endpoint.receive(peer, FrameDecoder().feed(piece))
        assert isinstance(parts.clock, VirtualClock)
        parts.clock.advance(0)  # else the driver's thread does what is due, at some time


Outcome = tuple[dict[str, list[str]], dict[str, str]]
"""The answers of each row, and digests of the files."""


def outcome(rows: list[Row], profile: str, condition: str, mode: str) -> Outcome:
    """Give what a broker makes of these rows."""
    with TemporaryDirectory() as folder:
        with broker_of(folder, profile=profile) as (broker, parts, peer):
            for change in CONDITIONS[condition]:
                change(broker, parts)
            answers = {}
            for number, row in enumerate(rows, 1):
                frames = [row.frame(number * OPAQUES + time) for time in range(TIMES)]
                say(parts, peer, *(frames if mode == MODES[0] else [b"".join(frames)]))
                answers[row.name] = _shown(parts, peer)
        found = {}
        for path in sorted(Path(folder).rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and name.partition("/")[0] in {
                "commitlog",
                "consumequeue",
                "timerlog",
            }:
                found[name] = sha256(path.read_bytes().rstrip(b"\0")).hexdigest()[:16]
    return answers, found


def _shown(parts: BrokerParts, peer: Peer) -> list[str]:
    """Give the answers that came, without what is as before them in the same row."""
    address = parts.address.encode()  # with a number: each broker has another
    shown = [one[4:].replace(address, b"node").decode("latin-1") for one in peer.received]
    peer.received.clear()
    return shown


def kept(answers: Mapping[str, list[str]]) -> str:
    """Give digests of the answers, row by row in the order of `ROWS`."""
    return " ".join("".join(map(_digest, row)) or "-" for row in answers.values())


def _digest(answer: str) -> str:
    return sha256(answer.encode("latin-1")).hexdigest()[:6]


# -- requests that do not pass ------------------------------------------------------------------

SECRET: Final = "12345678"
ACL: Final = PlainAcl(
    accounts=[
        PlainAccount(
            access_key="the sender",
            secret_key=SECRET,
            topic_perms={"T": "PUB"},
            default_topic_perm="DENY",
            default_group_perm="DENY",
        ),
        PlainAccount(
            access_key="the reader",
            secret_key=SECRET,
            default_topic_perm="SUB",
            default_group_perm="SUB",
        ),
    ]
)


def signed(account: str, code: int, fields: Mapping[str, str], *, secret: str = SECRET) -> Row:
    """A request that an account signs."""
    ext = {**fields, "AccessKey": account}
    ext["Signature"] = signing.sign(secret, ext, b"hello")
    name = f"{code} of {account} signed with {secret}"
    return Row(name, text(code, ext), b"hello")


SIGNED: Final = [
    signed("the sender", 310, SEND),
    signed("the sender", 10, LONG_SEND),
    signed("the sender", 310, SEND, secret="another one"),
    signed("the reader", 310, SEND),
    signed("nobody", 310, SEND),
    Row("310 of nobody", text(310, SEND), b"hello"),
    signed("the reader", 11, PULL),
    signed("the sender", 11, PULL),
    signed("the reader", 11, PULL, secret="another one"),
    Row("11 of nobody", text(11, PULL), b"hello"),
    signed("the sender", 310, {**SEND, "i": TIMED}),
]


def signed_outcome(mode: str) -> dict[str, list[str]]:
    """Give the answers of a broker with accounts; good and bad requests alternate in a piece."""
    with TemporaryDirectory() as folder, broker_with_accounts(folder) as (parts, peer):
        answers = {}
        good, bad = SIGNED[0], SIGNED[2]
        for number, row in enumerate(SIGNED, 1):
            frames = [row.frame(number * OPAQUES + time) for time in range(TIMES)]
            frames += [good.frame(number * OPAQUES + 5), bad.frame(number * OPAQUES + 6)]
            frames += [good.frame(number * OPAQUES + 7)]
            say(parts, peer, *(frames if mode == MODES[0] else [b"".join(frames)]))
            answers[row.name] = _shown(parts, peer)
    return answers


@contextmanager
def broker_with_accounts(folder: str) -> Iterator[tuple[BrokerParts, Peer]]:
    """A broker that knows the accounts of `ACL`."""
    clock = VirtualClock(start=datetime.fromtimestamp(START_MS / 1000, UTC))
    with EmbeddedBroker(
        clock=clock,
        session_clock=clock,
        tcp=False,
        topics=["T"],
        seed=5,
        store=folder,
        acl=ACL,
        profile="rocketmq-4.9",
    ) as broker:
        parts, peer = broker._parts(), Peer()
        parts.endpoint.connected(peer)
        yield parts, peer


VERBS: Final = ("respond", "drop", "drop_response", "corrupt", "delay")


def faulty_outcome(verb: str) -> dict[str, list[str]]:
    """Give the answers when the second of four sends or pulls meets a fault, in one piece."""
    answers = {}
    for code, fields in ((310, SEND), (11, {**PULL, "maxMsgNums": "1"})):
        with TemporaryDirectory() as folder, broker_of(folder) as (broker, parts, peer):
            fault = broker.faults.on(code, nth=2)
            argument = {"respond": (14,), "delay": (1.5,)}.get(verb, ())
            getattr(fault, verb)(*argument)
            row = Row("", text(code, fields), b"hello")
            say(parts, peer, b"".join(row.frame(number) for number in range(1, 5)))
            answers[str(code)] = _shown(parts, peer)
            assert isinstance(parts.clock, VirtualClock)
            parts.clock.advance(2)
            answers[f"{code} later"] = _shown(parts, peer)
    return answers


def parked_outcome(condition: str) -> list[str]:
    """Give the answers when a pull waits for the sends behind it in the same piece."""
    with TemporaryDirectory() as folder, broker_of(folder) as (broker, parts, peer):
        for change in CONDITIONS[condition]:
            change(broker, parts)
        waiting = {**PULL, "queueOffset": "40", "sysFlag": "6"}
        send = Row("", text(310, {**SEND, "e": "0"}), b"news")
        pieces = [Row("", text(11, waiting)).frame(1), send.frame(2), send.frame(3)]
        say(parts, peer, b"".join(pieces), Row("", text(11, waiting)).frame(4))
        return _shown(parts, peer)


def recorded() -> dict[str, Any]:
    """Give what the file holds."""
    found: dict[str, Any] = {}
    for profile in PROFILES:
        for mode in MODES:
            answers, files = outcome(ROWS, profile, "plain", mode)
            found[f"{profile} {mode}"] = {"answers": kept(answers), "files": files}
    found["signed"] = {mode: signed_outcome(mode) for mode in MODES}
    found["faults"] = {verb: faulty_outcome(verb) for verb in VERBS}
    found["parked"] = parked_outcome("plain")
    return found


PROFILES: Final = ("rocketmq-5.x", "rocketmq-4.9")

if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        wanted = [row for row in ROWS if sys.argv[2] in row.name]
        for profile in PROFILES:
            for name, row in outcome(wanted, profile, "plain", MODES[0])[0].items():
                print(profile, name, *row, sep="\n  ")
        sys.exit()
    FILE.write_text(json.dumps(recorded(), indent=1) + "\n")
