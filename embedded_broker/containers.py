"""RocketMQ for testcontainers: ``from embedded_broker.containers import RocketMQContainer``.

Needs the extra ``containers``. Works with Docker, and with Podman's service as ``DOCKER_HOST``.
"""

try:
    from embedded_broker.kit.rocketmq_container import BrokerRegistered, RocketMQContainer
except ModuleNotFoundError as error:
    from rocketmq_py.errors import how_to_install

    raise ModuleNotFoundError(
        f"RocketMQContainer needs testcontainers ({error}): {how_to_install('containers')}",
        name=error.name,
    ) from error

__all__ = ["BrokerRegistered", "RocketMQContainer"]
