"""The settings of clients that administer, whatever their face."""

from attrs import define, field, setters

from rocketmq_py.config import ClientConfig, explained, in_milliseconds, milliseconds, setting
from rocketmq_py.errors import ConfigError


def _a_cluster(_owner: object, setting_: object, value: object) -> None:
    del setting_
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigError("cluster", value, "must be the name of a cluster, or None for all")


@explained
@define(kw_only=True, eq=False, on_setattr=setters.NO_OP)
class AdminConfig(ClientConfig):
    """Settings of an administrator.

    Arguments
    ---------
    timeout_millis
        Budget of one request in milliseconds, from 1, or a timedelta. An act may need several.
    cluster
        Only brokers of this cluster are asked and changed; None: those of all clusters that the
        name server knows.
    """

    timeout_millis: int = field(
        default=5_000, converter=in_milliseconds, metadata=setting(milliseconds(1))
    )
    cluster: str | None = field(default=None, metadata=setting(_a_cluster))
