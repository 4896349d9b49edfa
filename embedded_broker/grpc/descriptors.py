"""Protobuf classes, made of the table in schema.py when they are first needed.

Answers: which class a message of the protocol has. They live in a pool of their own, so the stubs
of an official client may be loaded in the same process. Must not know: what a message means. Read
on: ``schema.py``.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from google.protobuf import duration_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from embedded_broker.grpc.schema import ENUMS, MESSAGES, PACKAGE

FILE: Final = "embedded_broker/grpc/messages.proto"
_WELL_KNOWN: Final = (duration_pb2, timestamp_pb2)
_FIELD: Final = re.compile(r"(\w+):(\d+)([?*]?) (\w+)")
_PART: Final = re.compile(r"(?:(\w+)\{([^}]*)\})|(\w+:\d+[?*]? \w+)")
_SCALARS: Final = {
    "str": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "i32": FieldDescriptorProto.TYPE_INT32,
    "i64": FieldDescriptorProto.TYPE_INT64,
    "float": FieldDescriptorProto.TYPE_FLOAT,
}


class Messages:
    """The classes, as attributes: ``messages.Status(code=20000)``."""

    def __init__(self, pool: DescriptorPool) -> None:
        for name in MESSAGES:
            found = pool.FindMessageTypeByName(f"{PACKAGE}.{name}")
            setattr(self, name, GetMessageClass(found))

    # Any: the classes exist at run time only; `incoming.py` and `outgoing.py` give typed values.
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the protocol has no message {name}")


@cache
def load_messages() -> Messages:
    """Make the classes, once in a process."""
    pool = DescriptorPool()
    for module in _WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(make_file().SerializeToString())
    return Messages(pool)


def make_file() -> FileDescriptorProto:
    """Describe the table in protobuf's own terms."""
    file = FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    file.dependency.extend(module.DESCRIPTOR.name for module in _WELL_KNOWN)
    for name, values in ENUMS.items():
        described = EnumDescriptorProto(name=name)
        for member in values:
            described.value.add(name=member.name, number=member.value)
        file.enum_type.append(described)
    for name, fields in MESSAGES.items():
        file.message_type.append(_describe(name, fields))
    return file


def _describe(name: str, fields: str) -> DescriptorProto:
    """Describe one message; what may be missing is in a union of its own, behind the others."""
    message = DescriptorProto(name=name)
    optional: list[FieldDescriptorProto] = []
    for union, text in _fields_of(fields):
        field = _field(name, text, message)
        if union is not None:
            known = [one.name for one in message.oneof_decl]
            if union not in known:
                message.oneof_decl.add(name=union)
                known.append(union)
            field.oneof_index = known.index(union)
        elif field.proto3_optional:
            optional.append(field)
    for field in optional:
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")
    return message


def _fields_of(text: str) -> Iterator[tuple[str | None, str]]:
    for union, members, single in _PART.findall(text):
        if single:
            yield None, single
        for member in members.split(", ") if members else ():
            yield union, member


def _field(message_name: str, text: str, message: DescriptorProto) -> FieldDescriptorProto:
    found = _FIELD.fullmatch(text)
    if found is None:
        raise ValueError(f"{message_name}: {text!r} is no field")
    name, number, mark, kind = found.groups()
    field = message.field.add(name=name, number=int(number))
    field.label = FieldDescriptorProto.LABEL_OPTIONAL
    if mark == "*" or kind == "texts":
        field.label = FieldDescriptorProto.LABEL_REPEATED
    field.proto3_optional = mark == "?"
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif kind in ENUMS:
        field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, f".{PACKAGE}.{kind}"
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"
        if kind in {"Duration", "Timestamp"}:
            field.type_name = f".google.protobuf.{kind}"
        elif kind == "texts":
            field.type_name = f".{PACKAGE}.{message_name}.{_entry(name, message)}"
    return field


def _entry(field_name: str, message: DescriptorProto) -> str:
    """Describe the pairs of a map of texts."""
    name = "".join(word.capitalize() for word in field_name.split("_")) + "Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    for number, key in enumerate(("key", "value"), 1):
        entry.field.add(
            name=key,
            number=number,
            type=FieldDescriptorProto.TYPE_STRING,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
    return name
