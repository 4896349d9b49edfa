"""Who has which queue, from whom we know it, and for how long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.routes import LOGGED_TOPICS_MAX, LOOK_AGAIN_S, MISSED_FOR_S, vip_address
from rocketmq_py.errors import (
    MQClientException,
    NameServerUnavailableError,
    NoRouteError,
    PermissionDeniedError,
    RemotingException,
    RocketMQError,
    RouteTimeoutError,
)
from rocketmq_py.protocol.bodies.topics import TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.client.conftest import InstanceMaker
from tests.unit.rocketmq_py.scripted import ScriptedCluster, ScriptedServer, route_of
from tests.waiting import until

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


@pytest.fixture(autouse=True)
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the tests ask for routes: on a busy machine the first look would come in between."""
    monkeypatch.setattr("rocketmq_py.client.instance.ROUTE_FIRST_MS", 3_600_000)


def names(instance: ClientInstance, topic: str) -> list[tuple[str, int]]:
    queues = instance.routes.publish_info(topic).queues
    return [(queue.broker_name, queue.queue_id) for queue in queues]


def test_queues_are_sorted_by_broker_name_whatever_the_server_says(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    cluster.routes["T"] = route_of([("b", "h:2"), ("a", "h:1")], queues=2)
    assert names(instance, "T") == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_brokers_without_master_or_write_permission_take_no_messages(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    route = route_of([("a", "h:1"), ("b", "h:2"), ("c", "h:3")], queues=1)
    route.broker_datas[0].broker_addrs = {1: "h:1"}
    route.queue_datas[1].perm = 4
    cluster.routes["T"] = route
    assert names(instance, "T") == [("c", 0)]
    readable = instance.routes.subscribe_queues("T") or ()
    assert [queue.broker_name for queue in readable] == ["a", "b", "c"]


def test_a_topic_that_nobody_may_write_is_an_error(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    cluster.routes["T"] = route_of([("a", "h:1")], perm=4)
    with pytest.raises(NoRouteError, match="no writable queue"):
        instance.routes.publish_info("T")


def test_a_fixed_order_comes_from_the_order_configuration(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    route = route_of([("a", "h:1"), ("b", "h:2")])
    route.order_topic_conf = "b:1;a:2;broken"
    cluster.routes["T"] = route
    assert names(instance, "T") == [("b", 0), ("a", 0), ("a", 1)]


def test_a_change_is_noticed_and_the_same_route_is_none(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    assert instance.routes.update("T")
    assert not instance.routes.update("T")
    cluster.routes["T"] = cluster.whole_route(queues=8)
    assert instance.routes.update("T")
    assert len(names(instance, "T")) == 8


def test_an_unknown_topic_changes_nothing_and_keeps_what_was_known(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    assert instance.routes.route("U") is None
    known = instance.routes.route("T")
    del cluster.routes["T"]
    assert instance.routes.route("T", refresh=True) == known
    assert instance.routes.subscribe_queues("U") is None


def test_addresses_are_found_by_id_then_by_the_next_one_then_by_any(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    route = route_of([("a", "h:1")])
    route.broker_datas[0].broker_addrs = {0: "h:1", 2: "h:3"}
    cluster.routes["T"] = route
    instance.routes.update("T")
    find = instance.routes.broker_address
    assert (find("a"), find("a", broker_id=1), find("a", broker_id=7)) == ("h:1", "h:3", "h:1")
    assert find("a", broker_id=7, only_this=True) is None
    assert find("z") is None


def test_who_is_asked_about_a_topic_are_masters_when_there_are_some(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    route = route_of([("a", "h:1"), ("b", "h:2")])
    route.broker_datas[0].broker_addrs = {1: "h:9"}
    cluster.routes["T"] = route
    assert instance.routes.addresses_to_ask("T") == []
    instance.routes.update("T")
    assert instance.routes.addresses_to_ask("T") == ["h:2"]
    route.broker_datas[1].broker_addrs = {1: "h:8"}
    instance.routes.update("T")
    assert sorted(instance.routes.addresses_to_ask("T")) == ["h:8", "h:9"]


def test_a_broker_that_no_route_names_is_forgotten(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    instance.routes.update("T")
    cluster.routes["T"] = route_of([("new", "h:1")])
    instance.routes.update("T")
    assert instance.routes.drop_offline_brokers() == {"h:1", cluster.namesrv_addr}
    assert instance.routes.broker_address("broker-a") is None
    assert instance.routes.queue_of_broker("broker-a") is None
    assert instance.routes.broker_addresses(masters_only=True) == {"h:1"}


def test_a_broker_that_left_a_route_is_missed_until_it_is_back(
    instance: ClientInstance, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("rocketmq_py.client.routes.monotonic", lambda: clock[0])
    both, alone = route_of([("a", "h:1"), ("b", "h:2")]), route_of([("a", "h:1")])

    def told(route: TopicRouteData) -> list[str]:
        cluster.routes["T"] = route
        instance.routes.update("T")
        return instance.routes.topics_that_miss_brokers()

    assert told(both) == []
    assert told(alone) == ["T"]
    assert told(route_of([("a", "h:1")], queues=8)) == ["T"]  # changed again, still without it
    assert told(both) == []
    assert told(alone) == ["T"]
    clock[0] += MISSED_FOR_S
    assert instance.routes.topics_that_miss_brokers() == []  # it was taken out for good


def test_the_next_name_server_is_asked_and_then_kept(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    dead = ScriptedServer()
    dead.close()
    instance = make_instance(f"{dead.address};{cluster.namesrv_addr}")
    for _ in range(3):
        instance.routes.update("T")
    assert len(cluster.name_server.of(ROUTE)) >= 3


def test_a_silent_name_server_leaves_time_for_the_next_one(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    silent = ScriptedServer()
    silent.silent(ROUTE)
    instance = make_instance(f"{silent.address};{cluster.namesrv_addr}", mq_client_api_timeout=400)
    assert instance.routes.route("T") is not None
    silent.close()


def test_a_cached_route_hides_that_nobody_answers(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    known = instance.routes.route("T")
    cluster.name_server.close()
    assert instance.routes.route("T", refresh=True) == known
    with pytest.raises(NameServerUnavailableError):
        instance.routes.route("U")


def test_a_refused_lookup_keeps_its_reason(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    cluster.name_server.answer(ROUTE, ResponseCode.NO_PERMISSION, "check signature failed.")
    with pytest.raises(MQClientException, match="signature") as caught:
        instance.routes.publish_info("T")
    assert isinstance(caught.value.__cause__, PermissionDeniedError)
    assert not isinstance(caught.value, NoRouteError)


def test_a_broker_that_is_taken_for_a_name_server_is_told_apart(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    remark = " request type 105 not supported"
    cluster.name_server.answer(ROUTE, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
    with pytest.raises(MQClientException, match=r"not supported.*Is this the address of a broker"):
        instance.routes.update("T")


def test_a_route_that_cannot_be_read_is_an_error(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    cluster.name_server.on(ROUTE, lambda request, _: request.answer(0, body=b"{broken"))
    with pytest.raises(RocketMQError):
        instance.routes.update("T")


def test_a_refresh_that_waits_too_long_for_another_one_says_so(
    instance: ClientInstance,
) -> None:
    with instance.routes._refresh_lock, pytest.raises(MQClientException, match="another thread"):
        instance.routes.publish_info("T", timeout_ms=20)


def test_failures_are_logged_once_a_minute_and_topic(
    instance: ClientInstance, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in ("A", "A", "B"):
        instance.routes.log_failure(topic, NoRouteError("no route"))
    assert caplog.text.count("route refresh failed") == 2
    for number in range(LOGGED_TOPICS_MAX + 1):
        instance.routes.log_failure(str(number), NoRouteError("no route"))
    assert len(instance.routes._logged) <= LOGGED_TOPICS_MAX


def test_a_name_server_that_answers_again_is_told_once(
    cluster: ScriptedCluster, instance: ClientInstance, caplog: pytest.LogCaptureFixture
) -> None:
    def failed() -> None:
        for topic in ("A", "B"):
            instance.routes.log_failure(topic, NameServerUnavailableError("silent"))

    failed()
    for _ in range(2):
        instance.routes.update("T")
    failed()
    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert told == [
        "route refresh failed topic=A: silent",
        f"name server {cluster.namesrv_addr} answers again",
        "route refresh failed topic=A: silent",
    ]


def test_nobody_is_asked_without_time_for_an_answer(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    asked = len(cluster.name_server.of(ROUTE))
    with pytest.raises(RouteTimeoutError, match=r"too short.*send_msg_timeout") as caught:
        instance.routes.update("T", 0.9)
    assert caught.value.response_code == ResponseCode.ACCESS_BROKER_TIMEOUT
    assert len(cluster.name_server.of(ROUTE)) == asked


def test_who_has_no_time_left_for_silent_name_servers_is_told_of_their_silence(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    cluster.name_server.silent(ROUTE)
    for timeout_ms in (20, 0.9):
        with pytest.raises(NameServerUnavailableError, match="no name server answers") as caught:
            instance.routes.update("U", timeout_ms)
        assert caught.value.response_code == ResponseCode.NO_NAME_SERVER_EXCEPTION


# --- routes that a broker contradicts --------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the routes, which stands."""
    now = [1_000.0]
    monkeypatch.setattr("rocketmq_py.client.routes.monotonic", lambda: now[0])
    return now


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first name server is the chosen one."""
    monkeypatch.setattr("rocketmq_py.client.name_servers.random.shuffle", lambda _: None)


def asked(server: ScriptedServer, topic: str) -> int:
    return sum(one.ext_fields["topic"] == topic for one in server.of(ROUTE))


def test_a_contradicted_route_is_asked_for_at_once_and_then_once_a_second(
    cluster: ScriptedCluster, instance: ClientInstance, clock: list[float]
) -> None:
    cluster.routes["Own"] = cluster.whole_route()
    instance.routes.update("Own")
    before = asked(cluster.name_server, "Own")
    counts = []
    for step in (0.0, 0.4, 0.5, 0.2, 0.0):
        clock[0] += step
        instance.routes.look_again("Own", clock[0])
        counts.append(asked(cluster.name_server, "Own") - before)
    assert counts == [1, 1, 1, 2, 2]
    assert instance.routes.turn_ms("Own", clock[0] + 0.1) == pytest.approx(LOOK_AGAIN_S * 1000)
    assert instance.routes.turn_ms("Own", clock[0]) == 0.0, "it was asked for since then"
    clock[0] += 5
    instance.routes.look_again("Own", clock[0] - 6)
    assert asked(cluster.name_server, "Own") - before == 2


def test_a_route_that_nobody_has_used_is_not_looked_at_again(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    assert not instance.routes.look_again("Unused", 5.0)
    assert asked(cluster.name_server, "Unused") == 0


@pytest.mark.usefixtures("in_order")
def test_another_name_server_is_asked_when_the_route_of_the_chosen_one_leads_nowhere(
    clusters: Callable[[int], ScriptedCluster], make_instance: InstanceMaker, clock: list[float]
) -> None:
    stale, fresh = clusters(1), clusters(1)
    instance = make_instance(f"{stale.namesrv_addr};{fresh.namesrv_addr}")
    instance.routes.update("T")
    assert instance.routes.broker_address("broker-a") == stale.brokers[0].address
    assert instance.routes.look_again("T", clock[0])
    assert instance.routes.broker_address("broker-a") == fresh.brokers[0].address
    before = asked(stale.name_server, "T")
    instance.routes.update("T")
    assert asked(stale.name_server, "T") == before, "the other one is chosen from now on"


@pytest.mark.usefixtures("in_order")
def test_a_topic_is_unknown_only_when_no_name_server_knows_it(
    clusters: Callable[[int], ScriptedCluster], make_instance: InstanceMaker
) -> None:
    first, second = clusters(1), clusters(1)
    second.routes["Other"] = second.whole_route()
    instance = make_instance(f"{first.namesrv_addr};{second.namesrv_addr}")
    assert names(instance, "Other")
    with pytest.raises(NoRouteError):
        instance.routes.publish_info("Nobody's")
    assert asked(first.name_server, "Nobody's") == asked(second.name_server, "Nobody's") == 1


@pytest.mark.usefixtures("in_order")
def test_a_name_server_that_refuses_gives_way_to_one_that_tells(
    clusters: Callable[[int], ScriptedCluster], make_instance: InstanceMaker
) -> None:
    first, second = clusters(1), clusters(1)
    first.name_server.answer(ROUTE, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    instance = make_instance(f"{first.namesrv_addr};{second.namesrv_addr}")
    assert names(instance, "T")


@pytest.mark.usefixtures("in_order")
def test_a_silent_name_server_costs_an_unknown_topic_less_than_its_time(
    clusters: Callable[[int], ScriptedCluster], make_instance: InstanceMaker
) -> None:
    first, second = clusters(1), clusters(1)
    second.name_server.silent(ROUTE)
    first.routes["TBW102"] = first.whole_route()
    instance = make_instance(f"{first.namesrv_addr};{second.namesrv_addr}")
    queues = instance.routes.publish_info("New", timeout_ms=2_000).queues
    assert {queue.topic for queue in queues} == {"New"}


def test_a_broker_that_takes_no_connection_is_looked_for_at_once(
    cluster: ScriptedCluster, make_instance: InstanceMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketmq_py.client.instance.ROUTE_FIRST_MS", 600_000)  # no poll
    instance = make_instance(cluster.namesrv_addr)
    instance.routes.update("T")
    gone = cluster.brokers[0]
    cluster.routes["T"] = route_of([("broker-a", "127.0.0.1:9")])
    gone.close()
    with pytest.raises(RemotingException):
        instance.remoting.invoke(gone.address, RemotingCommand(RequestCode.GET_MAX_OFFSET), 5_000)
    until(lambda: instance.routes.broker_address("broker-a") == "127.0.0.1:9")


def test_what_is_known_of_a_broker_is_not_undone_by_the_older_route_of_another_topic(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    cluster.routes["Z"] = cluster.whole_route()
    for topic in ("T", "Z"):
        instance.routes.update(topic)
    cluster.routes["T"] = route_of([("broker-a", "h:1")])
    instance.routes.update("T")
    instance.routes.drop_offline_brokers()
    assert instance.routes.broker_address("broker-a") == "h:1"


def test_a_route_that_is_used_is_never_changed_in_place(
    cluster: ScriptedCluster,
    instance: ClientInstance,
    clusters: Callable[[int], ScriptedCluster],
) -> None:
    del clusters
    before = instance.routes.publish_info("T")
    assert isinstance(before.route, TopicRouteData)
    cluster.routes["T"] = cluster.whole_route(queues=1)
    instance.routes.update("T")
    assert (len(before.queues), len(instance.routes.publish_info("T").queues)) == (4, 1)


def test_the_fast_port_is_kept_with_its_broker(
    cluster: ScriptedCluster, make_instance: InstanceMaker
) -> None:
    assert vip_address("10.0.0.1:10911") == "10.0.0.1:10909"
    instance = make_instance(cluster.namesrv_addr, vip_channel_enabled=True)
    cluster.routes["T"] = route_of([("a", "h:10911")])
    instance.routes.update("T")
    assert {"h:10911", "h:10909"} < instance.routes.drop_offline_brokers()
