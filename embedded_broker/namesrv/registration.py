"""How a broker of this process keeps the name server up to date.

By calls instead of request 103: all topics when it starts, every new or changed one at once, and
goodbye when it closes. A broker that may not be read or written announces its topics with that
permission taken away (BrokerController.registerBrokerAll), so that clients go elsewhere.
"""

from typing import Final

from attrs import evolve

from embedded_broker.core.broker_core import BrokerCore
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE

_READ_WRITE: Final = PERM_READ | PERM_WRITE


class Registration:
    """The tie between one broker and its name server; made once, under the door."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._register_all()
        core.topics.listeners.append(self._register_topic)
        core.config.on_change(self._settings_changed)
        core.on_leave.append(lambda: core.namesrv.unregister_broker(core.broker_name))

    def _register_all(self) -> None:
        core = self._core
        core.namesrv.register_broker(
            cluster=core.cluster_name,
            broker_name=core.broker_name,
            address=core.address,
            topics=[self._announced(topic) for topic in core.topics],
        )

    def _register_topic(self, topic: TopicConfig) -> None:
        self._core.namesrv.register_topic(self._core.broker_name, self._announced(topic))

    def _announced(self, topic: TopicConfig) -> TopicConfig:
        perm = self._core.config.int("brokerPermission")
        if perm & _READ_WRITE == _READ_WRITE:
            return topic
        return evolve(topic, perm=topic.perm & perm)

    def _settings_changed(self, names: frozenset[str]) -> None:
        if "brokerPermission" in names:
            self._register_all()
