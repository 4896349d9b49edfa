"""May two clients share one instance: connections, routes and signatures.

They may when a request of either goes to the same place, signed and looked at by the same. What
differs otherwise is settled by the first one, and told. Must not know who keeps instances; that is
``pool.py``.
"""

from collections.abc import Callable
from typing import Any

from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.config import ClientConfig, Credentials, shown_source, split_addresses
from rocketmq_py.errors import ConfigError
from rocketmq_py.logs import get_logger

_log = get_logger(__name__)


def _current(source: Any) -> Any:  # Any: what a setting can hold
    """Give the credentials that sign now: two sources of equal keys are no two accounts."""
    return source if source is None or isinstance(source, Credentials) else source()


def _as_it_is(value: Any) -> Any:
    return value


_DECIDE: dict[str, Callable[[Any], Any]] = {
    "namesrv_addr": lambda addresses: frozenset(split_addresses(addresses)),
    "namesrv_domain": _as_it_is,
    "namesrv_domain_subgroup": _as_it_is,
    "credentials": _current,
    "transport": _as_it_is,
    "use_tls": _as_it_is,
    "tls_config": _as_it_is,
    "address_mapper": _as_it_is,
    "vip_channel_enabled": _as_it_is,
    "unit_mode": _as_it_is,
    "namespace": _as_it_is,
    "namespace_v2": _as_it_is,
}
"""Settings that decide where a request goes and who it is from, and what two values must share."""

_FIRST_DECIDES = (
    "poll_name_server_interval",
    "heartbeat_broker_interval",
    "persist_consumer_offset_interval",
    "mq_client_api_timeout",
    "connect_timeout",
    "channel_max_idle",
    "client_async_permits",
    "client_async_bytes",
    "client_callback_executor_threads",
)


def check_same(
    client_id: str,
    first: ClientConfig,
    first_hooks: tuple[RPCHook, ...],
    config: ClientConfig,
    hooks: tuple[RPCHook, ...],
) -> None:
    """Raise `ConfigError` for another place or sender than the first client's; else tell the rest.

    May call functions of the application, which give credentials.
    """
    for name, meaning in _DECIDE.items():
        mine, theirs = getattr(config, name), getattr(first, name)
        if mine != theirs and meaning(mine) != meaning(theirs):
            if name == "credentials":  # a function may be bound to a secret
                shown, held = type(mine), shown_source(theirs)
            else:
                shown, held = mine, repr(theirs)
            raise ConfigError(name, shown, _other_name(client_id, f"{name} = {held}"))
    if hooks != first_hooks:
        held = f"rpc_hooks = {first_hooks!r}"
        raise ConfigError("rpc_hooks", hooks, _other_name(client_id, held))
    ignored = [name for name in _FIRST_DECIDES if getattr(config, name) != getattr(first, name)]
    if ignored:
        _log.warning(
            "client %s has several users: %s of the first one %s",
            client_id,
            ", ".join(ignored),
            "counts" if len(ignored) == 1 else "count",
        )


def _other_name(client_id: str, held: str) -> str:
    return (
        f"client {client_id} of this process has {held}, and all that share its instance_name "
        "share its connections: give this one another instance_name"
    )
