"""Protobuf messages as the journal shows them.

Answers: the values of a call as texts by name, without bodies. A topic or group is told by its
name, a list by its first entry and how many there are. Must not know: what they mean.
"""

from typing import Any, Final

TEXT_MAX: Final = 256
_LEFT_OUT: Final = frozenset({"body", "user_properties", "endpoints", "access_point"})
_NAMED: Final = frozenset({"topic", "group"})


# Any: messages of protobuf are made at run time.
def told_of(message: Any) -> dict[str, str]:
    """Give what is set in a message, in the order of its fields; deeper names do not hide others.

    The command of a stream is told by its own fields.
    """
    told: dict[str, str] = {}
    _tell(message, told, 0)
    return told


def _tell(message: Any, told: dict[str, str], depth: int) -> None:
    for field, value in message.ListFields():
        name = field.name
        if name in _LEFT_OUT:
            continue
        if field.is_repeated:
            if len(value) > 1:
                told.setdefault(name, str(len(value)))
            if field.message_type is None:
                told.setdefault(name, ",".join(map(str, value[:8]))[:TEXT_MAX])
                continue
            value = value[0]  # noqa: PLW2901 - the first stands for all
        if field.message_type is None:
            told.setdefault(name, str(value)[:TEXT_MAX])
        elif name in _NAMED or field.message_type.name == "Resource":
            told.setdefault(name.removesuffix("s"), value.name[:TEXT_MAX])
        elif field.message_type.name in {"Duration", "Timestamp"}:
            told.setdefault(name, f"{value.seconds}.{value.nanos // 1_000_000:03d}")
        elif depth < DEPTH_MAX:
            _tell(value, told, depth + 1)


DEPTH_MAX: Final = 4
