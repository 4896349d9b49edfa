"""How one task takes delayed messages back: many requests in flight, an outcome for each handle.

Taking back twice does no harm, so what got no answer is asked again. Must not know Spark. Read
on: ``send_recall.py``.
"""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

import pyarrow as pa
from attrs import define

from rocketmq_py import (
    NameServerUnavailableError,
    RecallHandle,
    RemotingCommandException,
    RocketMQError,
)
from spark_connector.options.write_options import WriteOptions
from spark_connector.servers.access import SERVER_ERRORS, access_for, is_transient

OUTCOME_FIELDS = (
    ("status", pa.string()),
    ("message_id", pa.string()),
    ("problem", pa.string()),
)
"""Name and Arrow type of what is told about a row."""

WAIT_AGAIN_S = 0.1
_TOO_LATE = "timestamp invalid"
"""What brokers say of a handle whose moment has come; they have no code for it alone."""


@define
class _Asked:
    row: int
    topic: str
    handle: str
    message_id: str
    future: Future[str]
    attempt: int = 0


class Recaller:
    """Takes back the messages of one task. One thread uses it."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._access = access_for(options.connection)
        self._outcomes: list[tuple[str, str | None, str | None]] = []
        self._flying: deque[_Asked] = deque()

    def take_back(
        self, topics: Sequence[str | None], handles: Sequence[str | None]
    ) -> pa.StructArray:
        """Ask for every handle and return a struct of `OUTCOME_FIELDS` for each.

        A null topic is that of the handle. Raises `NameServerUnavailableError`, where every other
        row would wait in vain, too.
        """
        self._outcomes = [("NO_HANDLE", None, None)] * len(handles)
        for row, (topic, handle) in enumerate(zip(topics, handles, strict=True)):
            if handle is None:
                continue
            try:
                parsed = RecallHandle.decode(handle)
            except RemotingCommandException as error:
                self._outcomes[row] = "REFUSED", None, str(error)
                continue
            if len(self._flying) >= self._options.max_in_flight:
                self._take_answer()
            one = _Asked(row, topic or parsed.topic, handle, parsed.uniq_key, Future())
            self._flying.append(self._asked(one))
        while self._flying:
            self._take_answer()
        columns = list(zip(*self._outcomes, strict=True)) or [()] * len(OUTCOME_FIELDS)
        arrays = [
            pa.array(cells, kind) for cells, (_, kind) in zip(columns, OUTCOME_FIELDS, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, names=[name for name, _ in OUTCOME_FIELDS])

    def _asked(self, one: _Asked) -> _Asked:
        try:
            one.future = self._access.recall(
                one.topic, one.handle, timeout_ms=self._options.send_timeout_ms
            )
        except RocketMQError as error:  # the handle cannot be one
            one.future = Future()
            one.future.set_exception(error)
        return one

    def _take_answer(self) -> None:
        """Take the answer of the oldest request, which ends within its time-out."""
        one = self._flying.popleft()
        try:
            self._outcomes[one.row] = "RECALLED", one.future.result(), None
        except NameServerUnavailableError:
            raise
        except SERVER_ERRORS as error:
            if not is_transient(error):
                status = "TOO_LATE" if _TOO_LATE in str(error) else "REFUSED"
                self._outcomes[one.row] = status, one.message_id, str(error)
            elif one.attempt < self._options.send_retries:
                one.attempt += 1
                threading.Event().wait(WAIT_AGAIN_S)
                self._flying.append(self._asked(one))
            else:
                self._outcomes[one.row] = "FAILED", one.message_id, str(error)
