"""What can be asked and changed of brokers: runtime, options, write permission, timers.

Also the values that name servers keep by name. Must not know topics and groups.
"""

import re
from collections.abc import Mapping
from typing import Final

from rocketmq_py.administration.broker_addresses import (
    at_masters,
    learned,
    masters,
    of_name_servers,
)
from rocketmq_py.administration.servers import Servers
from rocketmq_py.administration.table import (
    ALLOW_WRITES,
    DELAY_OFFSETS,
    DELETE_KEY_VALUE,
    FORBID_WRITES,
    KEY_VALUES,
    OPTIONS,
    PUT_KEY_VALUE,
    PUT_OPTIONS,
    RUNTIME,
    TIMER_CHECK_POINT,
    TIMER_COUNTS,
)
from rocketmq_py.administration.values import (
    BrokerRuntime,
    OptionChange,
    OptionsChange,
    PendingTimers,
    TimerPlace,
    moment,
)
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import version_text

_NAME: Final = re.compile(r"[\w.]+", re.ASCII)
_LINE_ENDS: Final = re.compile(r"[\r\n\\]")
"""What ends a line of Java's properties, or begins an escape there."""


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0


async def runtime(servers: Servers, at: str | None) -> dict[str, BrokerRuntime]:
    """Give what masters, or one broker, say about themselves (28)."""
    found = await at_masters(servers, RUNTIME, await masters(servers, at))
    return {name: _runtime(one.table) for name, one in found.items()}


def _runtime(table: Mapping[str, str]) -> BrokerRuntime:
    today = _number(table.get("msgPutTotalTodayNow")) - _number(
        table.get("msgPutTotalTodayMorning")
    )
    pending = table.get("timerCongestNum")
    return BrokerRuntime(
        version=version_text(_number(table.get("brokerVersion"))),
        booted_at=moment(_number(table.get("bootTimestamp"))),
        messages_today=max(0, today),
        timers_pending=None if pending is None else _number(pending),
        table=table,
    )


async def options(servers: Servers, at: str | None) -> dict[str, dict[str, str]]:
    """Give the options of masters, or one broker (26)."""
    return await at_masters(servers, OPTIONS, await masters(servers, at))


async def alter(
    servers: Servers, changes: Mapping[str, str], at: str | None, *, dry_run: bool
) -> dict[str, OptionsChange]:
    """Change options of running masters, or of one broker (25)."""
    if not changes:
        raise ConfigError("changes", changes, "must name an option at least")
    for name, value in changes.items():
        if not _NAME.fullmatch(name):
            raise ConfigError("option", name, "its name has letters, digits, dots and underscores")
        if _LINE_ENDS.search(value):
            raise ConfigError(name, value, "a value is one line without a backslash")
    places = await masters(servers, at)
    before = await at_masters(servers, OPTIONS, places)
    remarks: dict[str, str | None] = {}
    if not dry_run:
        body = "".join(f"{name}={value}\n" for name, value in changes.items()).encode()
        remarks = await at_masters(servers, PUT_OPTIONS, places, body=body)
    return {
        broker: OptionsChange(
            {name: OptionChange(shown.get(name), value) for name, value in changes.items()},
            remarks.get(broker),
        )
        for broker, shown in before.items()
    }


async def set_writable(servers: Servers, broker_name: str, *, writable: bool) -> int:
    """Let the name servers show a broker's topics as open or closed for writes (327, 205)."""
    row = ALLOW_WRITES if writable else FORBID_WRITES
    return max((await of_name_servers(servers, row, broker_name=broker_name)).values())


# --- values of name servers ------------------------------------------------------------------


async def key_values(servers: Servers, namespace: str) -> dict[str, str]:
    """Give what the name server keeps in a namespace (219)."""
    found = await learned(servers, KEY_VALUES, namespace=namespace)
    return {} if found is None else found.table


async def put_key_value(servers: Servers, namespace: str, key: str, value: str | None) -> None:
    """Let every name server keep a value (100), or none (102)."""
    if value is None:
        await of_name_servers(servers, DELETE_KEY_VALUE, namespace=namespace, key=key)
    else:
        await of_name_servers(servers, PUT_KEY_VALUE, namespace=namespace, key=key, value=value)


# --- timers ----------------------------------------------------------------------------------


async def timer_check_point(servers: Servers, at: str | None) -> dict[str, TimerPlace]:
    """Give how far the timers of masters, or of one broker, have come (60)."""
    found = await at_masters(servers, TIMER_CHECK_POINT, await masters(servers, at))
    return {
        name: TimerPlace(
            moment(one.last_read_time_ms), one.last_timer_queue_offset, one.last_timer_log_flush_pos
        )
        for name, one in found.items()
    }


async def pending_timers(servers: Servers, at: str | None) -> dict[str, dict[str, PendingTimers]]:
    """Give how many timers wait at masters, or at one broker, by topic (61)."""
    found = await at_masters(servers, TIMER_COUNTS, await masters(servers, at))
    return {
        name: {
            topic: PendingTimers(count.count, moment(count.time_stamp))
            for topic, count in one.timing_count.items()
        }
        for name, one in found.items()
    }


async def delay_offsets(servers: Servers, at: str | None) -> dict[str, dict[int, int]]:
    """Give the next offset of each delay level at masters, or at one broker (45)."""
    found = await at_masters(servers, DELAY_OFFSETS, await masters(servers, at))
    return {name: one.offset_table for name, one in found.items()}
