"""State and statistics of the broker: requests 28, 45, 60, 61 and 315.

The part of RocketMQ's AdminBrokerProcessor that dashboards, mqadmin and slaves read. 28 gives a
table of texts, of which no tool may miss one; figures that an embedded broker has not (thread
pools, page cache, latencies) are there as zero. Must not know: where the numbers come from. Read
on: `embedded_broker/core/statistics.py`, `rocketmq_py/protocol/bodies/timers.py`.
"""

import shutil
from functools import partial
from pathlib import Path
from typing import Final

from attrs import define, field

from embedded_broker.core.broker_stats import BrokerStats
from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.statistics import Statistics, Totals
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.long_requests import Work, elsewhere
from embedded_broker.remoting.requests import Request
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.timer.interface import TimerEngine
from embedded_broker.timer.levels.service import ScheduleMessageService
from rocketmq_py.protocol.bodies.consumption import BrokerStatsData, BrokerStatsItem
from rocketmq_py.protocol.bodies.timers import DelayOffsets, RuntimeInfo, TimerCounts
from rocketmq_py.protocol.bodies.topics import DataVersion
from rocketmq_py.protocol.codes import MQVersion, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.groups import ViewBrokerStatsDataRequestHeader
from rocketmq_py.protocol.names import SCHEDULE_TOPIC

_POOLS: Final = {
    # Thread pool: the capacity of its queue in the original, whether 4.9 has it.
    "send": (10_000, True),
    "pull": (100_000, True),
    "query": (20_000, True),
    "litePull": (100_000, False),
    "ack": (100_000, False),
}
_MANY: Final = 500
"""The counts of more topics are written outside the door."""
_ALWAYS_ZERO: Final = (
    "dispatchBehindBytes",
    "dispatchMaxBuffer",
    "getMessageEntireTimeMax",
    "pageCacheLockTimeMills",
    "putMessageEntireTimeMax",
    "putMessageFailedTimes",
    "startAcceptSendRequestTimeStamp",
    "EndTransactionQueueSize",
)


@define(eq=False, kw_only=True)
class InspectionProcessor:
    """The runtime table, the delay levels' offsets, the timers' check point and counts."""

    _env: Environment
    _timers: TimerEngine
    _levels: ScheduleMessageService
    _statistics: Statistics
    _broker_stats: BrokerStats
    _boot_ms: int = field(init=False)

    @_boot_ms.default
    def _now(self) -> int:
        return self._env.clock.now_ms

    @property
    def _is_4_9(self) -> bool:
        return not self._env.profile.timer_messages

    def register(self, endpoint: Endpoint) -> None:
        """Take over the requests of this module."""
        register = endpoint.register
        register(RequestCode.GET_BROKER_RUNTIME_INFO, self.runtime_info)
        register(RequestCode.GET_ALL_DELAY_OFFSET, self.delay_offsets)
        register(RequestCode.GET_TIMER_CHECK_POINT, self.timer_checkpoint)
        register(RequestCode.VIEW_BROKER_STATS_DATA, self.figure)
        endpoint.register_long(RequestCode.GET_TIMER_METRICS, self.timer_counts)

    # -- timers -----------------------------------------------------------------------------

    def delay_offsets(self, request: Request) -> RemotingCommand:
        """45: the next queue offset of every delay level that was used."""
        version = None if self._is_4_9 else DataVersion(**self._levels.data_version())
        body = DelayOffsets(data_version=version, offset_table=self._levels.offsets())
        return request.command.answer(ResponseCode.SUCCESS, body=body.encode())

    def timer_checkpoint(self, request: Request) -> RemotingCommand:
        """60: the 56 bytes of the last check point; without timers, or without a wheel, 1."""
        self._check_timers("The checkpoint is null")
        checkpoint = self._timers.checkpoint
        if checkpoint is None:
            raise Refused(
                Reason.FAILED,
                "The checkpoint is null: the sliced engine has none, timerEngine=wheel does",
            )
        return request.command.answer(ResponseCode.SUCCESS, body=checkpoint.encode())

    def timer_counts(self, request: Request) -> Work:
        """61: how many timers wait, by topic; without timers 1."""
        self._check_timers("The timer message store is null")
        table = self._timers.metrics.snapshot()
        if len(table["timingCount"]) > _MANY:
            yield elsewhere
        counts: TimerCounts = yield partial(TimerCounts.from_document, table)
        body = yield counts.encode
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _check_timers(self, problem: str) -> None:
        if not self._env.config.flag("timerWheelEnable"):
            raise Refused(Reason.FAILED, f"{problem}: timerWheelEnable is false at this broker")

    # -- figures ------------------------------------------------------------------------------

    def figure(self, request: Request) -> RemotingCommand:
        """315: how much a figure has grown in the last minute, hour and day; unknown: 1."""
        header = ViewBrokerStatsDataRequestHeader.from_ext(request.command.ext_fields)
        growths = self._broker_stats.view(header.stats_name, header.stats_key)
        body = BrokerStatsData(*(BrokerStatsItem(one.sum, one.per_second) for one in growths))
        return request.command.answer(ResponseCode.SUCCESS, body=body.encode())

    # -- the runtime table --------------------------------------------------------------------

    def runtime_info(self, request: Request) -> RemotingCommand:
        """28: everything about this broker, as texts."""
        present = self._statistics.present()
        table = {
            **dict.fromkeys(_ALWAYS_ZERO, "0"),
            **self._identity(),
            **self._log(),
            **self._disk(),
            **self._messages(present),
            **self._pools(),
            **self._level_offsets(),
        }
        if not self._is_4_9:
            table.update(self._waiting(present))
        return request.command.answer(ResponseCode.SUCCESS, body=RuntimeInfo(table).encode())

    def _identity(self) -> dict[str, str]:
        version = self._env.profile.version
        seconds = max(0, self._env.clock.now_ms - self._boot_ms) // 1000
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        table = {
            "bootTimestamp": str(self._boot_ms),
            "brokerVersion": str(version),
            "brokerVersionDesc": MQVersion(version).name,
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
        }
        if not self._is_4_9:
            table["brokerActive"] = "true"
        return table

    def _log(self) -> dict[str, str]:
        store, log = self._env.store, self._env.store.log
        return {
            "commitLogMaxOffset": str(log.max_offset),
            "commitLogMinOffset": str(log.min_offset),
            "earliestMessageTimeStamp": str(log.store_timestamp(log.min_offset)),
            "remainHowManyDataToFlush": _readable(max(0, log.max_offset - store.flushed_offset)),
            "remainTransientStoreBufferNumbs": str(2**31 - 1),  # no such pool
        }

    def _disk(self) -> dict[str, str]:
        fs = self._env.store.fs
        if not isinstance(fs, DirectoryFileSystem):
            return {"commitLogDiskRatio": "0.0", "consumeQueueDiskRatio": "0.0"}
        health = self._env.store.health
        trouble = {}
        if health.problem is not None:
            trouble = {"storeProblem": health.problem, "storeProblemSince": str(health.since_ms)}
        try:
            usage = shutil.disk_usage(fs.root)
        except OSError:  # the folder was removed
            return trouble
        ratio = f"{usage.used / max(1, usage.used + usage.free):.2f}"
        total, free = _readable(usage.total), _readable(usage.free)
        return {
            "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{Path(fs.root) / 'commitlog'}": ratio,
            "consumeQueueDiskRatio": ratio,
            **trouble,
        }

    def _messages(self, present: Totals) -> dict[str, str]:
        traffic, log = self._statistics, self._env.store.log
        now, morning = traffic.totals(present), traffic.this_morning
        yesterday = traffic.yesterday_morning
        size = log.max_offset - log.min_offset
        found, missed = traffic.rates("found", present), traffic.rates("missed", present)
        transferred = _rates(traffic.rates("given", present))
        return {
            "putMessageTimesTotal": str(max(1, now.put)),
            "putMessageSizeTotal": str(size),
            "putMessageAverageSize": str(size / max(1, present.put)),
            "putMessageDistributeTime": "null",
            "putLatency99": "0.00",
            "putLatency999": "0.00",
            "putTps": _rates(traffic.rates("put", present)),
            "getFoundTps": _rates(found),
            "getMissTps": _rates(missed),
            "getTotalTps": _rates(tuple(map(sum, zip(found, missed, strict=True)))),
            # Misspelt in 4.9, whose tools also read it from newer brokers.
            "getTransferedTps": transferred,
            **({} if self._is_4_9 else {"getTransferredTps": transferred}),
            "msgPutTotalTodayNow": str(now.put_by_users),
            "msgPutTotalTodayMorning": str(morning.put_by_users),
            "msgPutTotalYesterdayMorning": str(yesterday.put_by_users),
            "msgGetTotalTodayNow": str(now.given),
            "msgGetTotalTodayMorning": str(morning.given),
            "msgGetTotalYesterdayMorning": str(yesterday.given),
        }

    def _pools(self) -> dict[str, str]:
        table = {"EndTransactionThreadPoolQueueCapacity": "100000"}
        for name, (capacity, in_4_9) in _POOLS.items():
            if in_4_9 or not self._is_4_9:
                table[f"{name}ThreadPoolQueueSize"] = "0"
                table[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
                table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        return table

    def _level_offsets(self) -> dict[str, str]:
        end_of = self._env.store.max_offset
        return {
            f"scheduleMessageOffset_{level}": f"{offset},{end_of(SCHEDULE_TOPIC, level - 1)}"
            for level, offset in self._levels.offsets().items()
        }

    def _waiting(self, present: Totals) -> dict[str, str]:
        """`timerReadBehind` is in seconds, as in the original, `timerOffsetBehind` in messages."""
        if not self._env.config.flag("timerWheelEnable"):
            table = dict.fromkeys(("timerReadBehind", "timerOffsetBehind", "timerCongestNum"), "0")
            return {**table, "timerEnqueueTps": "0.0", "timerDequeueTps": "0.0"}
        return {
            "timerReadBehind": str(self._read_behind_ms() // 1000),
            "timerOffsetBehind": str(self._offset_behind()),
            "timerCongestNum": str(self._timers.count()),
            "timerEnqueueTps": f"{self._statistics.rates('timers_in', present)[0]:.1f}",
            "timerDequeueTps": f"{self._statistics.rates('timers_out', present)[0]:.1f}",
        }

    def _offset_behind(self) -> int:
        """Give how many messages the first service, which reads the timer topic, has left."""
        return next(iter(self._timers.stages.values())).queue_depth

    def _read_behind_ms(self) -> int:
        """Give for how long the earliest timer has been due.

        Not the age of the read pointer: here it stands still while nothing is near.
        """
        now_ms, timers = self._env.clock.now_ms, self._timers
        deadline = timers.next_deadline()
        if deadline is not None:
            return max(0, now_ms - deadline.due_ms)
        if not timers.count():
            return 0
        return max(stage.lag_ms(now_ms) for stage in timers.stages.values())


def _rates(rates: tuple[float, ...]) -> str:
    return " ".join(f"{rate:.1f}" for rate in rates)


def _readable(size: int) -> str:
    """Write a size as `MixAll.humanReadableByteCount` does with units of 1024."""
    steps = max(0, (size.bit_length() - 1) // 10)
    if steps == 0:
        return f"{size} B"
    return f"{size / 1024**steps:.1f} {'KMGTPE'[steps - 1]}iB"
