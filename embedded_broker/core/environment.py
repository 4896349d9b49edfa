"""What every service of a broker is made with: its names, options, clocks, door and store.

Must not know: any service, any table. Read on: ``lifecycle/parts.py``, which is one with the rest
of a broker; ``lifecycle/assembly.py``, which hands it out.
"""

from random import Random

from attrs import define, field

from embedded_broker.clocks.session import Session
from embedded_broker.door import Door
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import LIMITS, Limits, Profile
from embedded_broker.store.message_store import MessageStore
from rocketmq_py.clock import Clock


@define(eq=False, kw_only=True)
class Environment:
    """Where a broker runs, and by which rules."""

    door: Door
    clock: Clock
    session: Session = field(alias="session_clock", converter=Session)
    config: BrokerConfig
    profile: Profile
    limits: Limits = LIMITS["broker"]
    store: MessageStore
    random: Random
    cluster_name: str
    broker_name: str
    address: str
    """The advertised ``host:port``."""
