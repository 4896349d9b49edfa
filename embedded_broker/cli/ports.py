"""Ports of `serve` that could not be had: which option each comes from.

Answers: the options to change, for the error that names only the address. Must not know: sockets.
"""

from embedded_broker.api.cluster import EmbeddedCluster
from rocketmq_py.errors import ConfigError


def options_of(error: Exception, cluster: EmbeddedCluster, control_port: int | None) -> str:
    """Name the options that gave the port of this error; "" for an error of another kind."""
    if not isinstance(error, ConfigError) or error.setting != "address":
        return ""
    _, _, text = str(error.value).rpartition(":")
    if not text.isdecimal() or not int(text):
        return ""
    port, given = int(text), [broker.slot.arguments for broker in cluster.brokers]
    ports: dict[str, list[int | None]] = {
        "--namesrv-port": [given[0].namesrv_port],
        "--broker-port": [one.broker_port for one in given],
        "--set haListenPort": [one.config.int("haListenPort") for one in given],
        "--control-port": [control_port],
        "--grpc-port": [None if one.grpc is None else one.grpc.port for one in given],
    }
    return " or ".join(option for option, numbers in ports.items() if port in numbers)
