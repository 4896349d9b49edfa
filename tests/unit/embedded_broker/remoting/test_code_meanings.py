"""Every request code says what it wants, and with which topics and groups."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.core.guards import Action, Resource, ResourceKind
from embedded_broker.remoting.code_meanings import (
    BODY_MAX,
    CLUSTER,
    action_of,
    is_classified,
    wanted_by,
)
from rocketmq_py.protocol.codes import RequestCode
from tests.hostile.extreme_requests import FORMS


def topic(name: str) -> Resource:
    return Resource(ResourceKind.TOPIC, name)


def group(name: str) -> Resource:
    return Resource(ResourceKind.GROUP, name)


@pytest.mark.parametrize("profile", ["rocketmq-4.9", "rocketmq-5.x"])
def test_every_request_that_is_handled_is_classified(
    start_broker: Callable[..., EmbeddedBroker], profile: str
) -> None:
    """Whoever adds a handler says in the table of `code_meanings.py` what its request wants."""
    broker = start_broker(profile=profile, tcp=False)
    endpoint = broker._parts().endpoint
    namesrv = broker._running_brokers._runtime.namesrv.handlers  # type: ignore[union-attr]
    codes = {*endpoint.handlers, *namesrv}
    assert [code for code in sorted(codes) if not is_classified(code)] == []


def test_a_code_that_nobody_has_classified_is_a_change_of_the_cluster() -> None:
    assert not is_classified(99_999)
    assert wanted_by(99_999, {"topic": "T"}, b"").action is Action.UPDATE
    assert list(wanted_by(99_999, {"topic": "T"}, b"").resources) == list(CLUSTER)


@pytest.mark.parametrize(
    "code",
    sorted(code for code in RequestCode if action_of(code).value in {"Create", "Update", "Delete"}),
)
def test_a_change_is_never_about_nothing(code: int) -> None:
    assert wanted_by(code, {}, b"").resources


ACKS = json.dumps({"brokerName": "b", "acks": [{"c": "G", "t": "%RETRY%G"}, {"c": "H", "t": "T"}]})
OF_A_RETRY = [topic("%RETRY%G"), group("G")]
SUBJECT = b'{"topic":"T","consumerGroup":"G"}'
OF_A_BROKER = b'{"topic":"SCHEDULE_TOPIC_XXXX","consumerGroup":"G"}'


@pytest.mark.parametrize(
    ("code", "fields", "body", "action", "resources"),
    [
        (10, {"topic": "T", "producerGroup": "P"}, b"", Action.PUB, [topic("T")]),
        (310, {"a": "P", "b": "T"}, b"", Action.PUB, [topic("T")]),
        (310, {"a": "H", "b": "%RETRY%G"}, b"", Action.SUB, [topic("%RETRY%G")]),
        (320, {"a": "P", "b": "T"}, b"", Action.PUB, [topic("T")]),
        (325, {"a": "P", "b": "T"}, b"", Action.PUB, [topic("T")]),
        (36, {"group": "G", "originTopic": "T"}, b"", Action.SUB, [group("G")]),
        (11, {"topic": "T", "consumerGroup": "G"}, b"", Action.SUB, [topic("T"), group("G")]),
        (11, {"topic": "%RETRY%G", "consumerGroup": "G"}, b"", Action.SUB, OF_A_RETRY),
        (208, {"consumerGroup": "G", "topicList": "A;B"}, b"", Action.GET, None),
        (200, {}, b'{"groupName":"G"}', Action.CREATE, [group("G")]),
        (225, {}, b'{"groupConfigList":[{"groupName":"G"}]}', Action.CREATE, [group("G")]),
        (18, {}, b'{"topicConfigList":[{"topicName":"T"}]}', Action.CREATE, [topic("T")]),
        (41, {}, FORMS[41].body, Action.SUB, [group("consumers"), topic("Used")]),
        (34, {}, FORMS[34].body, Action.SUB, [group("consumers"), topic("Used")]),
        (34, {}, b'{"clientID":"c","producerDataSet":[{"groupName":"p"}]}', Action.SUB, []),
        (46, {}, FORMS[46].body, Action.SUB, [group("g"), topic("Used")]),
        (400, {}, SUBJECT, Action.SUB, [topic("T"), group("G")]),
        (401, {}, SUBJECT, Action.UPDATE, [topic("T"), group("G")]),
        (200151, {}, ACKS.encode(), Action.SUB, [*OF_A_RETRY, topic("T"), group("H")]),
        (400, {}, OF_A_BROKER, Action.SUB, [*CLUSTER, group("G")]),
        (18, {}, b'{"topicConfigList":[{"topicName":""}]}', Action.CREATE, list(CLUSTER)),
        (207, {"groupName": "CID_RMQ_SYS_REVIVE_GROUP"}, b"", Action.DELETE, list(CLUSTER)),
        (11, {"topic": "rmq_sys_REVIVE_LOG_c"}, b"", Action.SUB, list(CLUSTER)),
        (34, {}, b"no JSON", Action.SUB, list(CLUSTER)),
        (34, {}, b" " * (BODY_MAX + 1), Action.SUB, list(CLUSTER)),
        (400, {}, b"[]", Action.SUB, list(CLUSTER)),
        (17, {}, b"", Action.CREATE, list(CLUSTER)),
        (28, {"topic": "T"}, b"", Action.GET, list(CLUSTER)),
    ],
)
def test_what_a_request_is_about(
    code: int, fields: dict[str, str], body: bytes, action: Action, resources: list[Resource] | None
) -> None:
    wanted = wanted_by(code, fields, body)
    assert wanted.action is action
    if resources is None:
        resources = [group("G"), topic("A"), topic("B")]
    assert list(wanted.resources) == resources


def test_a_body_is_not_read_before_somebody_asks_for_what_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = wanted_by(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"G"}')
    read: list[bytes] = []
    monkeypatch.setattr("embedded_broker.remoting.code_meanings.loads_lenient", read.append)
    assert read == []
    assert wanted.resources[0] == CLUSTER[0]  # what cannot be read is about the cluster
    assert read
    assert wanted.resources[:1] == CLUSTER
