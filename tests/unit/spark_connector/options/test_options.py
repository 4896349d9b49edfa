"""Options are checked before anything is connected, and errors say what to write instead."""

from __future__ import annotations

import pickle
import re
import traceback
from datetime import datetime
from pathlib import Path

import pytest
from attrs import fields

import spark_connector
from rocketmq_py import MessageQueue
from spark_connector.errors import OptionError
from spark_connector.options.connection import Connection, Tls
from spark_connector.options.parsing import HiddenOptions
from spark_connector.options.positions import Start
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.options.table import OPTIONS, TABLE
from spark_connector.options.timer_options import TimerOptions, timer_options
from spark_connector.options.write_options import WriteOptions, write_options

READ = {"nameServer": "a:1;b:2", "subscribe": "T"}
PACKAGE = str(Path(spark_connector.__file__).parent)
WRITE = {"nameServer": "a:1", "topic": "T"}


def test_names_match_without_case_and_have_aliases() -> None:
    given = {"NAMESRVADDR": "a:1", "TOPIC": "T,U", "PullBatchSize": "64"}
    options = read_options(given, streaming=False)
    assert options.connection.name_server == "a:1"
    assert options.subscription.topics == ("T", "U")
    assert options.pull_batch_size == 64


def test_the_defaults_are_those_of_the_table() -> None:
    batch = read_options(READ, streaming=False)
    stream = read_options(READ, streaming=True)
    assert (batch.start, stream.start) == (Start("earliest"), Start("latest"))
    assert (batch.fail_on_data_loss, batch.prefetch, batch.arrow_batch_rows) == (True, 4, 4_000)
    assert (stream.offset_poll_interval_ms, stream.missing_queue_grace_ms) == (100, 600_000)
    assert stream.max_trigger_delay_ms == 900_000
    sink = write_options(WRITE, streaming=True)
    assert (sink.dedupe, write_options(WRITE, streaming=False).dedupe) == ("auto", "none")
    assert (sink.max_delay_ms, sink.max_in_flight) == (259_200_000, 256)


@pytest.mark.case("SP21")
@pytest.mark.parametrize(
    ("extra", "error"),
    [
        ({"subExpresion": "A"}, "unknown option subExpresion: did you mean subExpression"),
        ({"subscribePattern": "x"}, "exactly one of subscribe"),
        ({"topic": "U"}, "subscribe and topic mean the same"),
        ({"sendRetries": "1"}, "is not for batch reads, only for writes"),
        ({"maxOffsetsPerTrigger": "5"}, "is not for batch reads, only for streaming reads"),
        ({"pullBatchSize": "0"}, "pullBatchSize = '0': must be a whole number, 1 to"),
        ({"minPartitions": "0"}, "minPartitions = '0': must be a whole number, at least 1"),
        ({"pullBatchSize": "many"}, "must be a whole number"),
        ({"failOnDataLoss": "maybe"}, "must be true or false"),
        ({"bodyCharsetErrors": "x"}, "must be one of replace, strict"),
        ({"startingOffsets": "latest"}, "would read nothing"),
        ({"startingOffsets": '{"T":{"b":{"0":-1}}}'}, "would read nothing"),
        ({"startingOffsets": "group"}, "needs groupId"),
        ({"startingOffsets": "{"}, "must be earliest, latest, group"),
        ({"startingOffsets": '{"T":{"b":{"x":1}}}'}, "'x' is no queue number"),
        ({"startingOffsets": '{"T":{"b":{"0":-3}}}'}, "-3, which is not within -2 to "),
        ({"startingOffsets": '{"T":{"b":{"0":"9"}}}'}, "which is no whole number"),
        ({"endingOffsets": "earliest"}, "endingOffsets must be latest or JSON"),
        ({"startingTimestamp": "2024-01-01T00:00:00"}, "has no zone"),
        ({"startingTimestamp": "soon"}, "epoch milliseconds, or ISO 8601"),
        ({"subExpression": "A|B"}, r"no vertical bar; write A \|\| B for"),
        ({"subExpression": "A|||B|| C"}, r"no vertical bar; write A \|\| B \|\| C for"),
        ({"subExpression": "A||B|"}, r"no vertical bar; write A \|\| B for"),
        ({"subExpression": "||"}, r"subExpression = '\|\|' names no tag"),
        ({"subExpression": "|"}, r"subExpression = '\|' names no tag"),
        ({"subExpression": "A", "sqlExpression": "a=1"}, "one of subExpression and sqlExpression"),
        ({"accessKey": "k"}, "belong together"),
        ({"tls": "maybe"}, "must be true or false"),
        ({"tls": "true", "tlsCert": "c.pem"}, "tlsCert and tlsKey belong together"),
        ({"tlsCa": "ca.pem"}, "tlsCa needs tls=true"),
        ({"namespace": "a%b"}, "namespace = 'a%b': must be 1 to 64 letters"),
        ({"nameServer": "nowhere"}, "must be host:port"),
        ({"nameServer": "h:70000"}, "must be host:port"),
        ({"nameServer": ";"}, "must be host:port"),
        ({"namesrvAdr": "h:1"}, "did you mean nameServer"),
        ({"kafka.bootstrap.servers": "h:1"}, "did you mean nameServer"),
        ({"groupIdPrefix": "g"}, "did you mean groupId"),
        ({"pullBatchSize": "9999999999"}, "a whole number, 1 to 2147483647"),
        ({"assign": "{}", "subscribe": ""}, "assign must look like"),
        ({"assign": '{"T":{"b":[]}}', "subscribe": ""}, "names no queue"),
        ({"securityToken": "t"}, "belongs to accessKey and secretKey"),
        ({"rocketmq.connectTimout": "5"}, r"did you mean rocketmq\.connectTimeout"),
        ({"rocketmq.connectTimeout": "soon"}, "connect_timeout = 'soon'"),
        ({"rocketmq.transport": "auto"}, "always tcp"),
        ({"rocketmq.credentials": "x"}, "use accessKey and secretKey"),
        ({"addressMap": "a"}, "is not advertised:port=reachable:port"),
    ],
)
def test_what_is_wrong_is_named(extra: dict[str, str], error: str) -> None:
    with pytest.raises(OptionError, match=error):
        read_options(READ | extra, streaming=False)


@pytest.mark.parametrize(
    ("extra", "error"),
    [
        ({"groupId": "g"}, "groupId is not for writes"),
        ({"onInvalidRow": "topic"}, "needs invalidRowTopic"),
        ({"delayMs": "5", "delayLevel": "3"}, "contradict each other"),
        ({"delayLevel": "19"}, "must be a whole number, 1 to 18"),
        ({"delayMs": "6", "maxDelayMs": "5"}, "delayMs = 6 is over maxDelayMs = 5"),
        ({"batchBytes": "4194305"}, "1024 to 4194304: .* 4194304 bytes .its maxMessageSize"),
        ({"tags": "a|b"}, "has no vertical bar"),
        ({"topic": "a b"}, "option topic: .*illegal characters"),
        ({"onInvalidRow": "topic", "invalidRowTopic": "a b"}, "option invalidRowTopic: "),
        ({"replayGuard": "g"}, "of a batch write needs batchId"),
        ({"batchId": "1"}, "batchId needs replayGuard"),
        ({"replayGuard": "g", "batchId": "4294967295"}, "batchId = '4294967295'"),
    ],
)
def test_what_is_wrong_in_a_write_is_named(extra: dict[str, str], error: str) -> None:
    with pytest.raises(OptionError, match=error):
        write_options(WRITE | extra, streaming=False)


def test_limits_of_a_trigger_cannot_contradict_each_other() -> None:
    limits = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}
    with pytest.raises(OptionError, match="minOffsetsPerTrigger = 5 is over"):
        read_options(READ | limits, streaming=True)


def test_blank_options_count_as_not_given() -> None:
    blank = {"failOnDataLoss": " ", "groupId": "", "prefetch": ""}
    assert read_options(READ | blank, streaming=False) == read_options(READ, streaming=False)
    assert write_options(WRITE | {"replayGuard": "off"}, streaming=True).replay_guard is None


def test_no_options_at_all_point_to_views() -> None:
    with pytest.raises(OptionError, match="CREATE TEMPORARY VIEW"):
        read_options({}, streaming=False)


def test_keys_that_spark_adds_are_no_options_of_ours() -> None:
    added = {"provider": "rocketmq", "owner": "me", "option.subscribe": "T"}
    assert read_options(READ | added, streaming=False) == read_options(READ, streaming=False)
    added = {"checkpointLocation": "/x", "path": "T"}
    assert write_options(WRITE | added, streaming=True) == write_options(WRITE, streaming=True)


def test_starts_and_ends_can_be_moments_groups_and_places() -> None:
    def start(**given: str) -> Start:
        return read_options(READ | given, streaming=False).start

    assert start(startingTimestamp="1970-01-01T00:00:01+00:00").timestamp_ms == 1_000
    assert start(startingOffsets="group:earliest", groupId="g") == Start(
        "group", otherwise="earliest"
    )
    places = start(startingOffsets='{"T":{"0":7,"1":-2}}')
    assert (places.kind, places.positions) == (
        "offsets",
        {MessageQueue("T", "", 0): 7, MessageQueue("T", "", 1): -2},
    )
    times = start(startingOffsetsByTimestamp='{"T":{"b":{"0":1700000000000}}}')
    assert (times.kind, times.otherwise) == ("timestamps", "earliest")


@pytest.mark.parametrize(
    "text", ["2024-01-01", "2024-W01-1", "2024-01-01T10", "2024-01-01 10:20:30.5", "20240101T1020"]
)
def test_a_moment_without_a_zone_is_shown_with_one_that_is_taken(text: str) -> None:
    with pytest.raises(OptionError, match="has no zone") as caught:
        read_options(READ | {"startingTimestamp": text}, streaming=False)
    shown = str(caught.value).partition("write ")[2].split(", or ")
    assert [one.removeprefix(str(datetime.fromisoformat(text).isoformat())) for one in shown] == [
        "Z",
        "+08:00",
    ]
    moments = [
        read_options(READ | {"startingTimestamp": one}, streaming=False).start.timestamp_ms
        for one in shown
    ]
    assert moments[0] - moments[1] == 8 * 3_600_000


@pytest.mark.parametrize(
    "text", ["2024-01-01Z", "2024-01-01+08:00", "2024-01-01-08:00", "2024-01-01+08:00Z"]
)
def test_the_example_of_a_moment_is_one_that_is_taken(text: str) -> None:
    with pytest.raises(OptionError, match="a time and a zone, such as ") as caught:
        read_options(READ | {"startingTimestamp": text}, streaming=False)
    example = str(caught.value).partition("such as ")[2]
    start = read_options(READ | {"startingTimestamp": example}, streaming=False).start
    assert start.timestamp_ms == 1_706_659_200_000


@pytest.mark.case("SP9")
@pytest.mark.parametrize("text", ["A", "A||B", "A || B", "||A", "A||", "A|| ||B", "*", " "])
def test_tags_may_be_written_with_spaces_and_empty_parts(text: str) -> None:
    options = read_options(READ | {"subExpression": text}, streaming=False)
    assert options.expression == (text.strip() or "*")


def test_queues_can_be_assigned() -> None:
    given = {"nameServer": "a:1", "assign": '{"T":{"b":[0,2]}}'}
    queues = MessageQueue("T", "b", 0), MessageQueue("T", "b", 2)
    assert read_options(given, streaming=False).subscription.assigned == frozenset(queues)
    with pytest.raises(OptionError, match="must look like"):
        read_options(given | {"assign": '{"T":[0]}'}, streaming=False)


@pytest.mark.case("SP78")
def test_secrets_do_not_show_and_travel_with_the_options_that_hold_them() -> None:
    keys = {"accessKey": "id", "secretKey": "hush"}
    options = read_options(READ | keys, streaming=False)
    assert "hush" not in repr(options)
    again = pickle.loads(pickle.dumps(options))  # noqa: S301 - our own
    assert again.connection.secret_key is not None
    assert again.connection.secret_key.reveal() == "hush"


@pytest.mark.case("SP78")
def test_a_traceback_with_local_variables_shows_no_secret() -> None:
    keys = HiddenOptions({"accesskey": "id", "secretKy": "hush", "rocketmq.secretkey": "hush"})
    assert "hush" not in repr(keys)
    names = ("secretKy", "secretKey", "rocketmq.secretKey", "rocketmq.secret_key")
    for wrong in ({name: "hush"} for name in names):
        with pytest.raises(OptionError) as caught:
            read_options(HiddenOptions(READ | wrong), streaming=False)
        look_for_secrets(caught.value)
        timers = {"timers": "pending", "nameServer": "h:1", "topic": "T", "groupId": "G"}
        with pytest.raises(OptionError) as caught:
            timer_options(HiddenOptions(timers | wrong))
        look_for_secrets(caught.value)


def look_for_secrets(error: OptionError) -> None:
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    ours = [one for one in told.stack if one.filename.startswith(PACKAGE)]
    shown = [text for one in ours for text in (one.locals or {}).values()]
    assert shown, "locals were captured"
    assert not [text for text in shown if "hush" in text]


def test_client_settings_pass_through() -> None:
    given = {
        "rocketmq.connectTimeout": "500",
        "rocketmq.MQCLIENTAPITIMEOUT": "9",
        "rocketmq.vip_channel_enabled": "True",
        "rocketmq.instancename": "7",
    }
    options = read_options(READ | given, streaming=False)
    assert dict(options.connection.settings) == {
        "connect_timeout": 500,
        "mq_client_api_timeout": 9,
        "vip_channel_enabled": True,
        "instance_name": "7",
    }


@pytest.mark.parametrize("name", ["namesrvDomain", "namesrv_domain_subgroup"])
def test_a_domain_of_name_servers_is_refused_since_name_server_is_there(name: str) -> None:
    with pytest.raises(OptionError, match="use nameServer"):
        read_options(READ | {f"rocketmq.{name}": "mq"}, streaming=False)


def test_namespace_and_tls_files_are_kept_as_they_are_given() -> None:
    tls = {"tls": "true", "tlsCa": "ca.pem", "tlsCert": "me.pem", "tlsKey": "me.key"}
    connection = write_options(WRITE | tls | {"namespace": "shop"}, streaming=False).connection
    assert (connection.namespace, connection.tls) == ("shop", Tls("ca.pem", "me.pem", "me.key"))
    assert read_options(READ, streaming=False).connection.tls is None


def test_the_table_has_every_option_once_under_its_lower_case_name() -> None:
    assert all(name == option.name.lower() for name, option in OPTIONS.items())
    entries = [line for line in TABLE.splitlines() if not line.startswith(" ")]
    assert len(entries) == len(OPTIONS)


def test_every_option_has_a_meaning_for_its_users() -> None:
    odd = [one.name for one in OPTIONS.values() if not re.fullmatch(r"\S.{9,}\.", one.meaning)]
    assert odd == []


COMPOSED = {
    "subscription": (
        "subscribe",
        "subscribePattern",
        "assign",
        "deadLettersOf",
        "retriesOf",
        "topic",
    ),
    "expression": ("subExpression", "sqlExpression"),
    "start": ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    "end": ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    "required": ("requiredQueues", "requiredBrokers"),
    "tls": ("tlsCa", "tlsCert", "tlsKey"),
}
"""Fields that are made of options of other names."""


KINDS: tuple[type, ...] = (ReadOptions, WriteOptions, TimerOptions, Connection)


def test_every_option_is_a_field_of_its_name_or_a_part_of_one() -> None:
    there = {one.name for kind in KINDS for one in fields(kind)}
    assert COMPOSED.keys() <= there
    composed = {name for names in COMPOSED.values() for name in names}
    assert [
        one.name for one in OPTIONS.values() if one.field not in there and one.name not in composed
    ] == []


def test_a_default_is_a_value_that_the_option_takes() -> None:
    for option in OPTIONS.values():
        if option.default is not None:
            assert option.value(option.default) is not None, option.name
