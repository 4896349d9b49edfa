"""The pending timers of running embedded brokers, by the HTTP face of their control port.

Pages by due time, one request each, so that no answer grows with the number of timers. A page that
the broker finds too long, because of bodies, is asked for anew with fewer rows. Must not know
Spark or Arrow. Read on: ``embedded_broker/control/operations/timers.py`` for who answers.
"""

import json
import socket
import threading
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException
from typing import Any, Self
from urllib.parse import urlencode

from attrs import frozen

from rocketmq_py import MQClientException, RocketMQError
from spark_connector.decoding.timer_columns import TimerRow
from spark_connector.options.timer_options import TimerOptions

ROWS_MOST = 1000
"""Rows of a page, as the control port has it."""
ANSWER_MOST = 80 << 20
"""Bytes of an answer: the control port gives fewer."""
_OK, _NOT_FOUND, _TOO_LONG, _BUSY = 200, 404, 422, 503
_TOO_LONG_TITLES = ("AnswerTooLong", "BodyTooLargeError")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class ControlPortError(RocketMQError):
    """What the control port says is not possible."""

    def __init__(self, text: str, *, status: int = 0, title: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.title = title


@frozen
class TimerSpan:
    """Which timers: of a topic or of all, due at ``since_ms`` or later and before ``before_ms``."""

    topic: str | None = None
    since_ms: int | None = None
    before_ms: int | None = None


class ControlFace:
    """Asks one control port. For one thread; `close` it, or use it in a with block."""

    def __init__(self, options: TimerOptions) -> None:
        self._options = options
        host, _, port = str(options.control_address).rpartition(":")
        timeout_s = options.control_timeout_ms / 1000
        self._connection = HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def broker_names(self) -> list[str]:
        """Return the names of all brokers behind it."""
        return [str(one["name"]) for one in self._get("/brokers")]

    def now_ms(self, broker_name: str) -> int:
        """Return what time it is for a broker."""
        return int(self._get("/clock", broker=broker_name)["now_ms"])

    def timers(self, broker_name: str, span: TimerSpan, *, stored: bool) -> Iterator[TimerRow]:
        """Give what waits at a broker, in due order; ``stored``: with bodies and properties.

        A topic that the broker does not have has no timers.
        """
        limit, after = ROWS_MOST, None
        while True:
            try:
                page = self._get(
                    "/timers",
                    broker=broker_name,
                    topic=span.topic,
                    since=span.since_ms,
                    before=span.before_ms,
                    bodies=str(stored).lower(),
                    limit=limit,
                    after=after,
                )
            except ControlPortError as problem:
                if problem.status == _NOT_FOUND and span.topic is not None:
                    return
                if problem.title not in _TOO_LONG_TITLES or limit == 1:
                    raise
                limit = max(1, limit // 4)
                continue
            yield from [_row(one, broker_name, stored=stored) for one in page["timers"]]
            after = page["next"]
            if after is None:
                return

    def _get(self, path: str, **fields: object) -> Any:  # Any: JSON of many shapes
        query = urlencode({name: one for name, one in fields.items() if one is not None})
        target = f"{path}?{query}" if query else path
        options = self._options
        for attempt in range(options.fetch_offset_num_retries + 1):
            if attempt:
                threading.Event().wait(options.fetch_offset_retry_interval_ms / 1000)
            try:
                return self._ask(target)
            except (OSError, HTTPException) as error:
                self._connection.close()  # the next question opens it anew
                last: Exception = error
            except ControlPortError as problem:
                if problem.status != _BUSY:
                    raise
                last = problem
        raise MQClientException(
            f"the control port {options.control_address} gave no answer after "
            f"{options.fetch_offset_num_retries + 1} tries, asked from {socket.gethostname()}: "
            f"{type(last).__name__} {last}; check controlAddress, that this machine reaches it, "
            "and controlTimeoutMs"
        )

    def _ask(self, target: str) -> Any:  # Any: as _get
        token = self._options.control_token
        headers = {} if token is None else {"Authorization": f"Bearer {token.reveal()}"}
        self._connection.request("GET", target, headers=headers)
        answer = self._connection.getresponse()
        data = answer.read(ANSWER_MOST)
        where = f"the control port {self._options.control_address}"
        try:
            told = json.loads(data)  # a longer answer is cut off, and so no JSON
            if answer.status == _OK:
                return told
            title, detail = str(told["title"]), str(told["detail"])
        except (KeyError, TypeError, ValueError) as error:
            raise ControlPortError(
                f"{where} answers {target} as no embedded broker does ({answer.status}, {error}): "
                "check controlAddress"
            ) from None
        hint = ": give its token by the option controlToken" if title == "TokenNeeded" else ""
        raise ControlPortError(
            f"{where} refuses: {detail}{hint}", status=answer.status, title=title
        )


def _row(told: Any, broker_name: str, *, stored: bool) -> TimerRow:  # Any: a JSON object
    try:
        return TimerRow(
            told["topic"],
            broker_name,
            told["queue_id"],
            told["msg_id"],
            " ".join(told["keys"]),
            told["tags"],
            _ms(told["due_at"]),
            _ms(told["accepted_at"]),
            told["rolls"],
            told["kind"],
            told["size"],
            told["recall_handle"],
            b64decode(told["body_base64"]) if stored else None,
            told["properties"] if stored else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RocketMQError(
            f"the control port gave a timer that cannot be read ({type(error).__name__} {error}): "
            "its broker is of another version of rocketmq-py"
        ) from None


def _ms(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND
