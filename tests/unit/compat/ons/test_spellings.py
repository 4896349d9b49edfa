"""Every name of Java stands beside Python's, calls it, and takes the same."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

from compat import ons

ALONE = {
    # Accessors of plain attributes: `message.tag` is their Python.
    *("Message.getBody", "Message.getBornHost", "Message.getBornTimestamp", "Message.getKey"),
    *("Message.getMsgID", "Message.getOffset", "Message.getReconsumeTimes", "Message.getTag"),
    *("Message.getShardingKey", "Message.getTopic", "Message.getTopicPartition"),
    *("Message.setBody", "Message.setBornHost", "Message.setBornTimestamp", "Message.setKey"),
    *("Message.setMsgID", "Message.setReconsumeTimes", "Message.setShardingKey"),
    *("Message.setTag", "Message.setTopic", "Message.setUserProperties"),
    *("OnExceptionContext.getException", "OnExceptionContext.getMessageId"),
    *("OnExceptionContext.getTopic", "SendResult.getMessageId", "SendResult.getTopic"),
    *("TopicPartition.getPartition", "TopicPartition.getTopic"),
}


def spelt_as_in_java() -> Iterator[tuple[type, str]]:
    for name in ons.__all__:
        kind = getattr(ons, name)
        if not inspect.isclass(kind) or not kind.__module__.startswith("compat.ons"):
            continue
        for owner in kind.__mro__:
            if owner.__module__.startswith("compat.ons"):
                for member in vars(owner):
                    if re.fullmatch(r"[a-z]+(?:[A-Z]+[a-z]*)+", member):
                        yield kind, member


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


JAVA = sorted({(kind.__name__, name): (kind, name) for kind, name in spelt_as_in_java()}.items())
PAIRS = [
    pytest.param(kind, name, id=f"{kind.__name__}.{name}")
    for (_, (kind, name)) in JAVA
    if f"{kind.__name__}.{name}" not in ALONE and inspect.isfunction(getattr(kind, name))
]


def types_of(function: object) -> list[object]:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    return [one.annotation for one in signature.parameters.values()] + [signature.return_annotation]


def test_there_are_names_of_java() -> None:
    assert len(PAIRS) > 40


@pytest.mark.case("T102")
@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_a_name_of_java_takes_and_gives_what_pythons_does(kind: type, name: str) -> None:
    theirs, ours = getattr(kind, name), getattr(kind, snake(name))
    if name != "getUserProperties":  # which has a second form
        assert types_of(theirs) == types_of(ours)
    source = inspect.getsource(theirs)
    assert f".{snake(name)}(" in source, "it calls Python's name, so that an override counts"


def test_those_that_stand_alone_are_all_there() -> None:
    known = {f"{kind.__name__}.{name}" for (_, (kind, name)) in JAVA}
    assert ALONE - known == set()
