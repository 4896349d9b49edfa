"""Wiring of a master in a cluster: it registers elsewhere, and waits for its slaves.

Only of a broker with ``namesrvAddr``. With ``enableSlaveActingMaster`` nothing that is due leaves
until the slaves have told how far they acted for it. Must not know: requests. Read on:
``embedded_broker/ha/registration.py``, which does it.
"""

from collections.abc import Callable
from functools import partial

from embedded_broker.ha.registration import NOT_ACTIVE_MS, Registration
from embedded_broker.ha.tables import SlavesWork
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.lifecycle.slave import NO_HA_ADDRESS, announced
from embedded_broker.timer.choice import wheel_of
from rocketmq_py.protocol.bodies.topics import MASTER_ID
from rocketmq_py.protocol.headers.namesrv import RegisterBrokerRequestHeader


def registration_of(
    parts: BrokerParts, ha_address: str, note: Callable[[], None]
) -> Registration | None:
    """Make what registers a master at its ``namesrvAddr``; None where there is none.

    Under the door. ``note`` lets the clock driver look again.
    """
    if not parts.config.text("namesrvAddr"):
        return None
    work = None
    if parts.config.flag("enableSlaveActingMaster"):
        timers = wheel_of(parts.timers)
        work = SlavesWork(
            offsets=parts.tables.offsets, levels=parts.levels, timers=timers, note=note
        )
        work.go_offline()
    made = Registration(
        door=parts.door,
        config=parts.config,
        version=parts.profile.version,
        header=RegisterBrokerRequestHeader(
            broker_name=parts.broker_name,
            broker_addr=parts.address,
            cluster_name=parts.cluster_name,
            ha_server_addr=ha_address or NO_HA_ADDRESS,
            broker_id=MASTER_ID,
            enable_acting_master=work is not None,
            heartbeat_timeout_millis=None if work is None else NOT_ACTIVE_MS,
        ),
        topics=partial(announced, parts),
        work=work,
    )
    parts.tables.topics.listeners.append(lambda _: made.topics_changed())
    parts.tables.topics.on_removed.append(lambda _: made.topics_changed())
    return made
