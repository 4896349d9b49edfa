"""The table against the classes that the official client brings, each in a process of its own.

A second one, because who imports that client writes a folder into the home directory.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
NEWER = {
    ("TelemetryCommand", "notify_unsubscribe_lite_command"),
    ("Code", "INVALID_CLIENT_PROPERTIES"),
}
"""What one of both has, and the other is older or leaves out."""

COMPARE = """
from embedded_broker.grpc.descriptors import load_messages
from embedded_broker.grpc.schema import ENUMS, MESSAGES
from rocketmq.grpc_protocol import definition_pb2, service_pb2

def told(field):
    kind = field.message_type or field.enum_type
    union = field.containing_oneof
    return (
        field.number, field.type, field.is_repeated, field.has_presence,
        kind and kind.full_name, union and union.name,
    )

def fields(descriptor):
    return {field.name: told(field) for field in descriptor.fields}

ours = load_messages()
pairs = []
for name in MESSAGES:
    theirs = getattr(definition_pb2, name, None) or getattr(service_pb2, name)
    pairs.append((name, fields(getattr(ours, name).DESCRIPTOR), fields(theirs.DESCRIPTOR)))
for name, values in ENUMS.items():
    theirs = definition_pb2.DESCRIPTOR.enum_types_by_name[name]
    pairs.append((
        name,
        {one.name: one.value for one in values},
        {one.name: one.number for one in theirs.values},
    ))
for name, mine, yours in pairs:
    for key in sorted(mine.keys() | yours.keys()):
        if mine.get(key) != yours.get(key):
            print(name, key)
print("compared", len(pairs))
"""

BOTH = """
{first}
{second}
from embedded_broker.grpc.descriptors import load_messages

message = load_messages().Message(body=b"x")
message.topic.name = "T"
theirs = definition_pb2.Message.FromString(message.SerializeToString())
assert (theirs.topic.name, theirs.body) == ("T", b"x")
print("both")
"""
OURS = "import embedded_broker.grpc.endpoint"
THEIRS = "from rocketmq.grpc_protocol import definition_pb2, service_pb2"


def run(program: str, home: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.case("G1")
def test_the_table_says_what_the_official_stubs_say(tmp_path: Path) -> None:
    *differences, compared = run(COMPARE, tmp_path)
    assert {tuple(line.split(" ")) for line in differences} == NEWER
    assert compared == "compared 64"


@pytest.mark.case("G2")
@pytest.mark.parametrize(("first", "second"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_the_official_stubs_can_be_loaded_beside_it(
    first: str, second: str, tmp_path: Path
) -> None:
    assert run(BOTH.format(first=first, second=second), tmp_path) == ["both"]
