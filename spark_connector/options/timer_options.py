"""What a user asks of a read of pending timers: checked before anything is connected.

Must not know Spark, Arrow or the network. Read on: ``table.py`` for what each option means.
"""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from attrs import frozen

from spark_connector.errors import OptionError
from spark_connector.options.connection import is_address
from spark_connector.options.parsing import Given, Secret

_NAME = "timers"


@frozen
class TimerOptions:
    """Checked options; times are ms. Every field is the option of its name."""

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
    if (address is None) == (directory is None):
        raise OptionError(
            "option timers=pending needs controlAddress, the control port of a running embedded "
            "broker, or storeDirectory, the files of any broker: give one of them. A running "
            "broker of Apache RocketMQ does not list its timers: read its storeDirectory"
        )
    if address is None:
        if values["control_token"] is not None:
            raise OptionError("option controlToken belongs to controlAddress, which is missing")
        if not PurePath(directory).is_absolute():
            raise OptionError(
                f"option storeDirectory = {directory!r}: must be absolute, because the worker that "
                "reads it has a working directory of its own"
            )
        return TimerOptions(**values)
    values["control_address"] = address.removeprefix("http://").rstrip("/")
    if not is_address(values["control_address"]):
        raise OptionError(f"option controlAddress = {address!r}: must be host:port")
    return TimerOptions(**values)
