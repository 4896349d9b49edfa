"""How a row that cannot be a message is stored in ``invalidRowTopic``, so that it can be found.

Its body goes there with what identifies it as properties: why it is no message, the topic it was
meant for, its keys, its DEDUPE_ID, and what happened to the body. Texts that may themselves be
what is wrong are cleaned and cut, so that this message is a good one. Must not know queues.
Read on: ``sending.py``.
"""

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_py.raw import MessageIds
from spark_connector.writing.encoding import BODY_SIZE_MAX, NAME_END, VALUE_END, Encoded
from spark_connector.writing.requests import Request
from spark_connector.writing.write_columns import read_rows

TEXT_BYTES_MAX = 4_000
"""The most of one text: all of them together stay below what properties may have."""
IDENTITIES = ("keys", "dedupe_key", "message_id", "sharding_key")
"""Columns by which a user knows a row again."""
SHOWN_MOST = 100
"""Characters of one of them in an error or a log."""
NO_BODY = b"?"
"""The broker refuses an empty body; ORIGINAL_BODY says that this one was none."""
_DEDUPE = re.compile(f"(?:^|{VALUE_END})DEDUPE_ID{NAME_END}([^{VALUE_END}]*){VALUE_END}")


def redirected(
    batch: pa.RecordBatch, meanings: dict[str, str], encoded: Encoded, ids: MessageIds, topic: str
) -> Iterator[Request]:
    """Give a request to a topic for each row of a batch that has a problem, in order."""
    rows = sorted(encoded.problems)
    some = batch.take(pa.array(rows, pa.int64()))
    columns = read_rows(some, meanings)
    nothing = [None] * len(rows)
    keys = columns["keys"].to_pylist() if "keys" in columns else nothing
    dedupe = columns["dedupe_key"].to_pylist() if "dedupe_key" in columns else None
    for number, row in enumerate(rows):
        body, note = _body(encoded.bodies[row])
        if dedupe is not None:
            dedupe_id = dedupe[number]
        else:
            found = _DEDUPE.search((encoded.properties[row].as_py() or b"").decode())
            dedupe_id = found[1] if found else None
        prefix, first = ids.block(1)
        texts = (
            ("UNIQ_KEY", f"{prefix}{first:012X}"),
            ("INVALID_REASON", encoded.problems[row]),
            ("ORIGINAL_TOPIC", encoded.topics[row].as_py()),
            ("KEYS", keys[number]),
            ("DEDUPE_ID", dedupe_id),
            ("ORIGINAL_BODY", note),
        )
        yield Request(topic, (body,), (row,), properties=(_joined(texts),), redirected=True)


def identities(batch: pa.RecordBatch, meanings: dict[str, str], rows: list[int]) -> list[str]:
    """Return by what a user may know some rows of a batch, ``" (keys ...)"``, "" for nothing."""
    columns = read_rows(batch.take(pa.array(rows, pa.int64())), meanings)
    given = {name: columns[name].to_pylist() for name in IDENTITIES if name in columns}
    said = []
    for number in range(len(rows)):
        texts = ((name, cells[number]) for name, cells in given.items())
        parts = [f"{name} {_clean(text)[:SHOWN_MOST]}" for name, text in texts if text]
        said.append(f" ({', '.join(parts)})" if parts else "")
    return said


def _body(cell: pa.Scalar) -> tuple[bytes, str | None]:
    """Return what can be stored of a body, and what is to say about it."""
    if not cell.is_valid:
        return NO_BODY, "null"
    size = pc.binary_length(cell).as_py()
    if size == 0:
        return NO_BODY, "empty"
    if size > BODY_SIZE_MAX:
        return cell.as_buffer()[:BODY_SIZE_MAX].to_pybytes(), f"{size} bytes"
    return cell.as_py(), None


def _joined(texts: Sequence[tuple[str, str | None]]) -> str:
    cleaned = ((name, _clean(text)) for name, text in texts if text is not None)
    return "".join(f"{name}{NAME_END}{text}{VALUE_END}" for name, text in cleaned if text)


def _clean(text: str) -> str:
    """Replace what ends names and values, and cut what is too long."""
    text = re.sub("[\x00-\x02]", " ", text).strip()
    return text.encode()[:TEXT_BYTES_MAX].decode(errors="ignore")
