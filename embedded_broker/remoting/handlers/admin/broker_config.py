"""How administrators read and change the broker's options: requests 25 and 26.

The part of RocketMQ's AdminBrokerProcessor behind `mqadmin updateBrokerConfig` and
`getBrokerConfig`. Both carry a properties text, one `name=value` per line. A real broker answers
0 to whatever it does not know; here an unknown option, a bad value, and one that cannot change on a
running broker are 1 with a sentence, and nothing is changed. The table is `settings/options.py`.
"""

from typing import Final

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.endpoint import Request, RequestError
from embedded_broker.settings.config import check_known, read_properties
from embedded_broker.settings.options import ARGUMENT_NAMES, show
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.json_text import dumps

BLACK_LIST: Final = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})
"""Names that nobody may change by request (BrokerConfig.configBlackList)."""


class BrokerConfigProcessor:
    """Reads and changes options."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._changes = 0
        self._changed_ms = core.clock.now_ms

    def register(self) -> None:
        """Take over the requests of this module."""
        self._core.endpoint.register(RequestCode.UPDATE_BROKER_CONFIG, self.update)
        self._core.endpoint.register(RequestCode.GET_BROKER_CONFIG, self.show)

    def update(self, request: Request) -> RemotingCommand:
        """25: change options, all of them or none; a black-listed name is 16.

        Names that a real broker has and this one has no use for are accepted, and named in the
        remark of the answer.
        """
        settings: dict[str, object] = {}
        without_effect: list[str] = []
        try:
            for name, value in read_properties(request.command.body.decode("utf-8", "replace")):
                if name in BLACK_LIST:
                    raise RequestError(
                        ResponseCode.NO_PERMISSION, f"Can not update config in black list: {name}"
                    )
                if check_known(name):
                    settings[name] = value
                else:
                    without_effect.append(name)
            self._core.config.update_inside(settings)
        except ConfigError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if settings:
            self._changes += 1
            self._changed_ms = self._core.clock.now_ms
        remark = f"without effect here: {', '.join(without_effect)}" if without_effect else None
        return request.command.answer(ResponseCode.SUCCESS, remark)

    def show(self, request: Request) -> RemotingCommand:
        """26: every option with its value, and how often options were changed."""
        core = self._core
        host, _, port = core.address.rpartition(":")
        arguments = {
            "brokerClusterName": core.cluster_name,
            "brokerName": core.broker_name,
            "brokerIP1": host,
            "listenPort": port,
        }
        lines = [f"{name}={arguments[name]}" for name in ARGUMENT_NAMES if name in arguments]
        lines += [f"{name}={show(value)}" for name, value in core.config.items()]
        version: dict[str, int] = {"counter": self._changes, "timestamp": self._changed_ms}
        if core.profile.data_version_has_state:
            version["stateVersion"] = 0
        return request.command.answer(
            ResponseCode.SUCCESS,
            ext_fields={"version": dumps(version).decode()},
            body="".join(f"{line}\n" for line in lines).encode(),
        )
