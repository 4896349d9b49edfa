"""Questions of the command line to a running broker about its timers.

Answers: the report of a broker, or of every broker that a name server knows. The questions are
those of `rocketmq_py.DefaultMQAdminExt`. When a broker refuses one (4.9 has no timers, a 5.x that
just started has no runtime table yet, one with accounts answers nobody else), the report has a
warning in the place of that part, and what it would have told is not known.
"""

from collections.abc import Callable
from typing import TypeVar, Unpack

from embedded_broker.inspector.report import Report, report_of_broker
from rocketmq_py import DefaultMQAdminExt, MQBrokerException, NoRouteError
from rocketmq_py.config import ClientSettings
from rocketmq_py.protocol.bodies.timers import TimerCounts
from rocketmq_py.protocol.codes import ResponseCode

_T = TypeVar("_T")
MASTER_ID = 0


def ask_brokers(
    address: str,
    *,
    now_ms: int,
    topic: str | None = None,
    timeout_ms: int = 5_000,
    **settings: Unpack[ClientSettings],
) -> list[Report]:
    """Ask the broker at ``host:port``, or all masters if a name server answers there.

    `settings` are those of the client that asks, such as its credentials.
    Raises `RocketMQError` when nobody answers in time, or the address is none.
    """
    with DefaultMQAdminExt(timeout_millis=timeout_ms, **settings) as admin:
        return [
            _ask(admin, broker, now_ms=now_ms, topic=topic) for broker in _brokers(admin, address)
        ]


def _brokers(admin: DefaultMQAdminExt, address: str) -> list[str]:
    try:
        cluster = admin.examine_broker_cluster_info(address)
    except MQBrokerException:
        return [address]  # a broker answers here: it does not know the request
    masters = sorted(
        broker.broker_addrs[MASTER_ID]
        for broker in cluster.broker_addr_table.values()
        if MASTER_ID in broker.broker_addrs
    )
    if not masters:
        raise NoRouteError(f"the name server {address} knows no master broker")
    return masters


def _ask(admin: DefaultMQAdminExt, address: str, *, now_ms: int, topic: str | None) -> Report:
    warnings: list[str] = []

    def answer(
        what: str, question: Callable[[str], _T], *, unheard_of: _T | None = None
    ) -> _T | None:
        try:
            return question(address)
        except MQBrokerException as error:
            warnings.append(f"the broker does not tell {what}: code {error.code}, {error.remark}")
            # A broker that is older than a request has nothing of what it asks for.
            is_older = error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            return unheard_of if is_older else None

    return report_of_broker(
        address,
        now_ms=now_ms,
        runtime=answer("the runtime table (28)", admin.fetch_broker_runtime_stats),
        levels=answer("the delay offsets (45)", admin.get_all_delay_offset),
        checkpoint=answer("the timer check point (60)", admin.get_timer_check_point),
        counts=answer("the timer counts (61)", admin.get_timer_metrics, unheard_of=TimerCounts()),
        topic=topic,
        warnings=warnings,
    )
