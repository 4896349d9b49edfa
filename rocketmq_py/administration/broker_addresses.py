"""Where brokers are: by name, by topic, by cluster, as the name servers say now.

What administrators ask is about the present, so nothing is kept. Must not know what is asked of the
brokers.
"""

from collections.abc import Mapping
from typing import TypeVar

from rocketmq_py.administration.servers import Servers
from rocketmq_py.administration.table import CLUSTER, ROUTE, Row
from rocketmq_py.administration.values import BrokerPlace, TopicPlace
from rocketmq_py.client.asking import AnyOf
from rocketmq_py.config import shown_name_servers, split_host_port
from rocketmq_py.errors import (
    MQClientException,
    NameServerUnavailableError,
    NoRouteError,
    RemotingException,
    RocketMQError,
)
from rocketmq_py.protocol.bodies.topics import MASTER_ID, TopicRouteData
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE, ResponseCode

_T = TypeVar("_T")


async def learned(servers: Servers, row: Row[_T], **fields: object) -> _T:
    """Ask the first name server that answers."""
    asked = await servers.name_servers()
    try:
        return await servers.one(row.at(AnyOf(asked), body=b"", **fields))
    except RemotingException as error:
        raise _silent(servers, error) from error


async def of_name_servers(servers: Servers, row: Row[_T], **fields: object) -> dict[str, _T]:
    """Ask every name server; those that do not answer are left out, unless something changes.

    Raises `NameServerUnavailableError` when none answers.
    """
    questions = {one: row.at(one, body=b"", **fields) for one in await servers.name_servers()}
    if row.changes:
        return await servers.each(questions)
    answers = await servers.all(questions)
    silent = [one for one in answers.values() if isinstance(one, RemotingException)]
    for answer in answers.values():
        if isinstance(answer, RocketMQError) and not isinstance(answer, RemotingException):
            raise answer
    if len(silent) == len(answers):
        raise _silent(servers, silent[0]) from silent[0]
    return {key: one for key, one in answers.items() if not isinstance(one, RocketMQError)}


def _silent(servers: Servers, error: RocketMQError) -> NameServerUnavailableError:
    return NameServerUnavailableError(
        f"no name server answers ({shown_name_servers(servers.config)}): {error}",
        response_code=ResponseCode.NO_NAME_SERVER_EXCEPTION,
    )


# --- brokers -------------------------------------------------------------------------------


def _mapped(servers: Servers, addresses: Mapping[int, str]) -> dict[int, str]:
    mapper = servers.config.address_mapper
    return {key: one if mapper is None else mapper(one) for key, one in addresses.items()}


async def brokers(servers: Servers) -> tuple[BrokerPlace, ...]:
    """Give every broker, or those of the client's cluster, sorted by name (106)."""
    told = (await learned(servers, CLUSTER)).broker_addr_table
    wanted = servers.config.cluster
    return tuple(
        BrokerPlace(name, told[name].cluster, _mapped(servers, told[name].broker_addrs))
        for name in sorted(told)
        if wanted in {None, told[name].cluster}
    )


async def masters(servers: Servers, at: str | None = None) -> dict[str, str]:
    """Give the addresses of masters by broker name: of all, or of one.

    ``at`` is a broker's name, or the ``host:port`` of any broker, which no name server is asked
    about then.
    """
    if at is not None and ":" in at:
        split_host_port(at)
        return {at: at}
    known = await brokers(servers)
    found = {
        one.name: one.master for one in known if one.master is not None and at in {None, one.name}
    }
    if not found:
        names = ", ".join(one.name for one in known) or "none"
        cluster = servers.config.cluster
        raise MQClientException(
            f"no master of {f'broker {at}' if at else 'any broker'}"
            f"{'' if cluster is None else f' of cluster {cluster}'} is registered at the name "
            f"server: it knows {names}",
            response_code=ResponseCode.BROKER_NOT_EXIST_EXCEPTION,
        )
    return found


async def at_masters(
    servers: Servers,
    row: Row[_T],
    places: Mapping[str, str],
    *,
    body: bytes = b"",
    **fields: object,
) -> dict[str, _T]:
    """Ask brokers side by side; the answers by broker name. Raises the first failure."""
    questions = {name: row.at(address, body=body, **fields) for name, address in places.items()}
    return await servers.each(questions)


# --- topics --------------------------------------------------------------------------------


async def routes(servers: Servers, topic: str) -> dict[str, TopicRouteData | None]:
    """Give what each name server that answers tells of a topic, None where it is unknown (105)."""
    return await of_name_servers(servers, ROUTE, topic=topic, accept_standard_json_only=True)


async def route(servers: Servers, topic: str) -> tuple[TopicPlace, ...]:
    """Give where a topic is, by broker name; () when no name server knows it."""
    told = [one for one in (await routes(servers, topic)).values() if one is not None]
    return () if not told else places_of(servers, told[0])


def places_of(servers: Servers, told: TopicRouteData) -> tuple[TopicPlace, ...]:
    """Read a route, of the client's cluster only if it has one."""
    wanted = servers.config.cluster
    at = {one.broker_name: one for one in told.broker_datas if wanted in {None, one.cluster}}
    return tuple(
        TopicPlace(
            one.broker_name,
            at[one.broker_name].cluster,
            _mapped(servers, at[one.broker_name].broker_addrs),
            one.read_queue_nums,
            one.write_queue_nums,
            bool(one.perm & PERM_READ),
            bool(one.perm & PERM_WRITE),
        )
        for one in sorted(told.queue_datas, key=lambda one: one.broker_name)
        if one.broker_name in at
    )


async def masters_of(servers: Servers, topic: str) -> dict[str, str]:
    """Give the masters that have a topic; NoRouteError when there is none."""
    found = {one.broker_name: one.addresses.get(MASTER_ID) for one in await route(servers, topic)}
    known = {name: address for name, address in found.items() if address is not None}
    if known:
        return known
    raise NoRouteError(
        f"topic {topic} has no master now: its brokers are {sorted(found)}"
        if found
        else f"no route of topic {topic} at name server {shown_name_servers(servers.config)}: "
        "does it exist?",
        response_code=ResponseCode.NOT_FOUND_TOPIC_EXCEPTION,
        topic=topic,
    )
