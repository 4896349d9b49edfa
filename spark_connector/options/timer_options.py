"""What a user asks of a read of pending timers: checked before anything is connected.

Must not know Spark, Arrow or the network. Read on: ``table.py`` for what each option means.
"""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from attrs import fields, frozen

from spark_connector.errors import OptionError
from spark_connector.options.connection import is_address
from spark_connector.options.parsing import Given, HiddenOptions, Secret
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.options.table import BY_FIELD

TIMER_TOPIC = "rmq_sys_wheel_timer"
"""Where brokers from 5.0 on keep what waits (``TimerMessageStore.TIMER_TOPIC``)."""
_NAME = "timers"
_WAYS = 3
_OF_ROWS = ("topic", "columns")
"""Options that say of a read of a topic something else than of timers."""


@frozen
class TimerOptions:
    """Checked options; times are ms. Every field but `pulling` is the option of its name."""

    timers: str
    control_address: str | None
    control_token: Secret | None
    control_timeout_ms: int
    store_directory: str | None
    broker_name: str | None
    topic: str | None
    as_of_ms: int | None
    columns: tuple[str, ...]
    push_filters: bool
    arrow_batch_rows: int
    arrow_batch_bytes: int
    fetch_offset_num_retries: int
    fetch_offset_retry_interval_ms: int
    pulling: ReadOptions | None = None
    """How the timer topic is pulled, where that is what is read."""


_OF_EACH_WAY = {
    BY_FIELD[one.name].name.lower() for one in fields(TimerOptions) if one.name in BY_FIELD
}


def asks_for_timers(options: Mapping[str, str]) -> bool:
    """Whether these are options of a read of pending timers."""
    return any(name.lower() == _NAME and str(options[name]).strip() for name in options)


def timer_options(options: Mapping[str, str]) -> TimerOptions:
    """Check the options of a read of timers; raises `OptionError`, connects to nothing."""
    given = Given(options, "T")
    values: dict[str, Any] = given.values(TimerOptions)
    values["control_token"] = given.secret("controlToken")
    values["columns"] = tuple(
        one.strip() for one in (values["columns"] or "").split(",") if one.strip()
    )
    address, directory = values["control_address"], values["store_directory"]
    if [given.value("nameServer"), address, directory].count(None) != _WAYS - 1:
        raise OptionError(
            "option timers=pending needs nameServer, whose brokers' timer topics are read, "
            "controlAddress, the control port of a running embedded broker, or storeDirectory, the "
            "files of any broker: give one of them"
        )
    if address is None and values["control_token"] is not None:
        raise OptionError("option controlToken belongs to controlAddress, which is missing")
    shared = given.shared_with("B")
    if given.value("nameServer") is not None:
        return TimerOptions(**values, pulling=_pulling(shared))
    for name in shared:
        if name.lower() not in _OF_EACH_WAY:
            raise OptionError(f"option {name} belongs to nameServer, which is missing")
    if address is not None:
        values["control_address"] = address.removeprefix("http://").rstrip("/")
        if not is_address(values["control_address"]):
            raise OptionError(f"option controlAddress = {address!r}: must be host:port")
    elif not PurePath(directory).is_absolute():
        raise OptionError(
            f"option storeDirectory = {directory!r}: must be absolute, because the worker that "
            "reads it has a working directory of its own"
        )
    return TimerOptions(**values)


def _pulling(shared: HiddenOptions) -> ReadOptions:
    """Return how the timer topic is pulled, whose keys must not stand in a local variable."""
    reading = HiddenOptions(
        {name: shared[name] for name in shared if name.lower() not in _OF_ROWS}
        | {"subscribe": TIMER_TOPIC}
    )
    return read_options(reading, streaming=False)
