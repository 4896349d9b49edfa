"""What goes wrong on purpose: answers to requests, and the disk.

Read on: ``embedded_broker/api/faults.py``.
"""

from typing import Final

from attrs import frozen

from embedded_broker.control.fault_numbers import AnyFault
from embedded_broker.control.fields import Field, FieldType
from embedded_broker.control.operation import Call, Operation
from embedded_broker.remoting.journal import asked_for, code_of
from embedded_broker.remoting.request_faults import Fault, answers_to
from rocketmq_py.errors import ConfigError

_VERBS: Final = ("respond", "drop", "drop_response", "close", "close_after", "corrupt", "abort")


@frozen(kw_only=True)
class FaultTold:
    """A fault that was asked for; ``hits`` counts how often it has happened."""

    number: int
    told: str
    of_disk: bool
    hits: int


@frozen(kw_only=True)
class Ended:
    """How many faults were ended."""

    count: int


def list_faults(call: Call) -> list[FaultTold]:
    """List the faults that were asked for, also those that tests in the broker's process made."""
    faults = call.broker.faults
    return [_told(call, one) for one in (faults.unused if call["unused"] else faults.asked)]


def add_fault(call: Call) -> FaultTold:
    """Let requests of clients go wrong: the nth one from now on, once unless more is asked for."""
    verb, delay = call["verb"], call["delay"]
    if verb is None and delay is None:
        raise ConfigError("verb", verb, f"one of {', '.join(_VERBS)}, or a delay")
    needed, possible = verb == "respond", verb in {"respond", "abort"}
    if (needed and call["response"] is None) or (not possible and call["response"] is not None):
        raise ConfigError("response", call["response"], "the code to answer with, for respond")
    if verb == "respond":
        code = call["code"]
        code_of(answers_to(None if code is None else asked_for(code)), call["response"])
    fault = call.broker.faults.on(call["code"], **call.only("topic", "group", "client", "nth"))
    fault.times(call["times"])
    if call["always"]:
        fault.always()
    if delay is not None:
        fault.delay(delay)
    if verb == "respond":
        fault.respond(call["response"], call["remark"])
    elif verb == "abort":
        fault.abort(call["response"] or "UNAVAILABLE")
    elif verb == "close_after":
        fault.close(after=True)
    elif verb is not None:
        getattr(fault, verb)()
    return _told(call, fault)


def fail_flush(call: Call) -> FaultTold:
    """Let the next syncs fail, so that nothing becomes durable by them."""
    return _told(call, call.broker.faults.disk.fail_next_flush(**call.only("times", "path")))


def tear_write(call: Call) -> FaultTold:
    """Cut the next write that is longer than so many bytes, and let it fail."""
    return _told(call, call.broker.faults.disk.tear_next_write(call["at"], path=call["path"]))


def fill_disk(call: Call) -> FaultTold:
    """Let the disk be full after this many more bytes, until the fault is ended."""
    return _told(call, call.broker.faults.disk.fill_after(call["bytes"]))


def lose_unsynced(call: Call) -> list[FaultTold]:
    """Lose all unsynced bytes in the next crash."""
    call.broker.faults.disk.lose_unsynced(random_prefix=call["random_prefix"])
    return [_told(call, one) for one in call.broker.faults.asked]


def end_fault(call: Call) -> FaultTold:
    """Let one fault happen no more."""
    fault = call.faults.find(call["number"], call.broker.faults.asked)
    if isinstance(fault, Fault):
        fault.end()
    else:
        call.broker.faults.disk.end(fault)
    return _told(call, fault)


def clear_faults(call: Call) -> Ended:
    """Let everything work again, and forget what was asked for."""
    count = len(call.broker.faults.asked)
    call.broker.faults.clear()
    return Ended(count=count)


def _told(call: Call, fault: AnyFault) -> FaultTold:
    of_disk = not isinstance(fault, Fault)
    return FaultTold(
        number=call.faults.of(fault),
        told=fault.what if not isinstance(fault, Fault) else repr(fault),
        of_disk=of_disk,
        hits=fault.hits,
    )


_TIMES: Final = Field("times", FieldType.INTEGER, "How often it happens.", default=1, low=1)
_CODE_TOLD: Final = "Which request, as SEND_MESSAGE_V2, or SendMessage of gRPC; without it any."
_RESPONSE_TOLD: Final = "What respond answers, as SYSTEM_BUSY; abort takes a status of gRPC."
FAULTS: Final = (
    Operation(
        "GET",
        "/faults",
        list_faults,
        (Field("unused", FieldType.FLAG, "Only those that never happened.", default=False),),
    ),
    Operation(
        "POST",
        "/faults",
        add_fault,
        (
            Field(
                "code",
                FieldType.CODE,
                _CODE_TOLD,
            ),
            Field("topic", FieldType.TEXT, "Only requests about this topic."),
            Field("group", FieldType.TEXT, "Only requests of this group."),
            Field("client", FieldType.TEXT, "Only requests of the client with this id."),
            Field("nth", FieldType.INTEGER, "The first one that goes wrong.", default=1, low=1),
            Field("verb", FieldType.TEXT, "What happens to it.", choices=_VERBS),
            Field(
                "response",
                FieldType.CODE,
                _RESPONSE_TOLD,
            ),
            Field("remark", FieldType.TEXT, "Its remark.", default="a test asked for this answer"),
            Field("delay", FieldType.NUMBER, "Handle it so many seconds later.", low=0.001),
            _TIMES,
            Field("always", FieldType.FLAG, "Let it happen every time.", default=False),
        ),
    ),
    Operation(
        "POST",
        "/faults/disk/fail_next_flush",
        fail_flush,
        (_TIMES, Field("path", FieldType.TEXT, "Only this file or folder.", default="")),
    ),
    Operation(
        "POST",
        "/faults/disk/tear_next_write",
        tear_write,
        (
            Field("at", FieldType.INTEGER, "After how many bytes.", required=True, low=0),
            Field("path", FieldType.TEXT, "In which file or folder.", default="commitlog"),
        ),
    ),
    Operation(
        "POST",
        "/faults/disk/fill_after",
        fill_disk,
        (Field("bytes", FieldType.INTEGER, "How many bytes.", required=True, low=0),),
    ),
    Operation(
        "POST",
        "/faults/disk/lose_unsynced",
        lose_unsynced,
        (
            Field(
                "random_prefix",
                FieldType.FLAG,
                "Keep a random first part of each file.",
                default=False,
            ),
        ),
    ),
    Operation("DELETE", "/faults/{number}", end_fault),
    Operation("DELETE", "/faults", clear_faults),
)
