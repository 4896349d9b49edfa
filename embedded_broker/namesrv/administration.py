"""Administration of a name server: what is asked of it and changed in it.

Requests 100, 101, 102 and 219 are about key-values, 205, 216, 217 and 327 about routes; 224, 304
and 311 to 313 list topics, 318 and 319 are about options. After RocketMQ's DefaultRequestProcessor.
Must not know: brokers. Read on: `settings.py`, `routes.py`.
"""

from attrs import define

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.namesrv.routes import RouteTable
from embedded_broker.namesrv.settings import KeyValues, NameServerOptions
from embedded_broker.remoting.requests import Handler, Request
from embedded_broker.settings.config import read_properties
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.topics import KVTable, TopicList, TopicRouteData
from rocketmq_py.protocol.codes import (
    PERM_READ,
    PERM_WRITE,
    RequestCode,
    ResponseCode,
    TopicSysFlag,
)
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.namesrv import (
    AddWritePermOfBrokerResponseHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    GetTopicsByClusterRequestHeader,
    PutKVConfigRequestHeader,
    RegisterTopicRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
    WritePermOfBrokerRequestHeader,
)


@define(eq=False)
class NameServerAdministration:
    """Answers administrators."""

    _routes: RouteTable
    _values: KeyValues
    _options: NameServerOptions

    def handlers(self) -> dict[int, Handler]:
        """Give what answers which request."""
        return {
            RequestCode.PUT_KV_CONFIG: self.put_value,
            RequestCode.GET_KV_CONFIG: self.value,
            RequestCode.DELETE_KV_CONFIG: self.delete_value,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.values,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write_perm,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.register_topic,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self.unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self.topics_with_unit_subscribers,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self.other_topics_with_unit_subscribers,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update_options,
            RequestCode.GET_NAMESRV_CONFIG: self.show_options,
        }

    # -- key-values ---------------------------------------------------------------------------

    def put_value(self, request: Request) -> RemotingCommand:
        """100: set a value."""
        header = PutKVConfigRequestHeader.from_ext(request.command.ext_fields)
        self._values.put(header.namespace, header.key, header.value)
        self._routes.version += 1  # those of ordered topics tell some of them
        return request.command.answer(ResponseCode.SUCCESS)

    def value(self, request: Request) -> RemotingCommand:
        """101: a value; none: 22."""
        header = GetKVConfigRequestHeader.from_ext(request.command.ext_fields)
        value = self._values.get(header.namespace, header.key)
        if value is None:
            raise Refused(
                Reason.NOT_FOUND,
                f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )
        fields = GetKVConfigResponseHeader(value=value).to_ext()
        return request.command.answer(ResponseCode.SUCCESS, ext_fields=fields)

    def delete_value(self, request: Request) -> RemotingCommand:
        """102: remove a value; one that is not there is no error."""
        header = GetKVConfigRequestHeader.from_ext(request.command.ext_fields)
        self._values.delete(header.namespace, header.key)
        self._routes.version += 1
        return request.command.answer(ResponseCode.SUCCESS)

    def values(self, request: Request) -> RemotingCommand:
        """219: the values of a namespace; one in which nothing was ever set: 22."""
        header = GetKVListByNamespaceRequestHeader.from_ext(request.command.ext_fields)
        values = self._values.all_of(header.namespace)
        if values is None:
            raise Refused(Reason.NOT_FOUND, f"No config item, Namespace: {header.namespace}")
        body = KVTable(dict(values)).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    # -- routes -------------------------------------------------------------------------------

    def wipe_write_perm(self, request: Request) -> RemotingCommand:
        """205: nobody sends to a broker any more, until it announces a topic anew."""
        header = WritePermOfBrokerRequestHeader.from_ext(request.command.ext_fields)
        count = self._routes.change_perms(header.broker_name, lambda perm: perm & ~PERM_WRITE)
        fields = WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count).to_ext()
        return request.command.answer(ResponseCode.SUCCESS, ext_fields=fields)

    def add_write_perm(self, request: Request) -> RemotingCommand:
        """327: all topics of a broker may be read and written."""
        header = WritePermOfBrokerRequestHeader.from_ext(request.command.ext_fields)
        count = self._routes.change_perms(header.broker_name, lambda _: PERM_READ | PERM_WRITE)
        fields = AddWritePermOfBrokerResponseHeader(add_topic_count=count).to_ext()
        return request.command.answer(ResponseCode.SUCCESS, ext_fields=fields)

    def delete_topic(self, request: Request) -> RemotingCommand:
        """216: forget the route of a topic; an unknown one is no error."""
        header = DeleteTopicFromNamesrvRequestHeader.from_ext(request.command.ext_fields)
        cluster = header.cluster_name
        self._routes.drop_topic(header.topic, self._routes.brokers_of(cluster) if cluster else None)
        return request.command.answer(ResponseCode.SUCCESS)

    def register_topic(self, request: Request) -> RemotingCommand:
        """217: say where a topic is; a broker that is not there makes it void."""
        header = RegisterTopicRequestHeader.from_ext(request.command.ext_fields)
        if request.command.body:
            route = TopicRouteData.decode(request.command.body)
            self._routes.put_queues(header.topic, route.queue_datas)
        return request.command.answer(ResponseCode.SUCCESS)

    # -- topics -------------------------------------------------------------------------------

    def topics_of_cluster(self, request: Request) -> RemotingCommand:
        """224: the topics of a cluster's brokers."""
        self._check_lists()
        header = GetTopicsByClusterRequestHeader.from_ext(request.command.ext_fields)
        return _list(request, self._routes.topics_of(self._routes.brokers_of(header.cluster)))

    def system_topics(self, request: Request) -> RemotingCommand:
        """304: the names of clusters and brokers, which are topics, too, and a broker's address."""
        info = self._routes.clusters()
        names = [
            one for cluster, names in info.cluster_addr_table.items() for one in (cluster, *names)
        ]
        addresses = [
            a for one in info.broker_addr_table.values() for a in one.broker_addrs.values()
        ]
        body = TopicList(names, addresses[0] if addresses else None).encode()
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def unit_topics(self, request: Request) -> RemotingCommand:
        """311: the topics of a unit."""
        self._check_lists()
        return _list(request, self._routes.topics_with(_is_of_unit))

    def topics_with_unit_subscribers(self, request: Request) -> RemotingCommand:
        """312: the topics with subscribers in units."""
        self._check_lists()
        return _list(request, self._routes.topics_with(_has_unit_subscribers))

    def other_topics_with_unit_subscribers(self, request: Request) -> RemotingCommand:
        """313: those of them that are of no unit."""
        self._check_lists()
        return _list(
            request,
            self._routes.topics_with(
                lambda flags: _has_unit_subscribers(flags) and not _is_of_unit(flags)
            ),
        )

    def _check_lists(self) -> None:
        if not self._options.flag("enableTopicList"):
            raise Refused(Reason.FAILED, "disable")

    # -- options ------------------------------------------------------------------------------

    def update_options(self, request: Request) -> RemotingCommand:
        """318: change options; a black-listed name is 16."""
        try:
            given = dict(read_properties(request.command.body.decode("utf-8", "replace")))
        except ConfigError as error:
            raise Refused(Reason.FAILED, str(error)) from error
        self._options.update(given)
        self._routes.version += 1
        return request.command.answer(ResponseCode.SUCCESS)

    def show_options(self, request: Request) -> RemotingCommand:
        """319: every option with its value."""
        text = "".join(f"{name}={value}\n" for name, value in self._options.items().items())
        return request.command.answer(ResponseCode.SUCCESS, body=text.encode())


def _list(request: Request, topics: list[str]) -> RemotingCommand:
    return request.command.answer(ResponseCode.SUCCESS, body=TopicList(topics).encode())


def _is_of_unit(flags: int) -> bool:
    return bool(flags & TopicSysFlag.UNIT)


def _has_unit_subscribers(flags: int) -> bool:
    return bool(flags & TopicSysFlag.UNIT_SUB)
