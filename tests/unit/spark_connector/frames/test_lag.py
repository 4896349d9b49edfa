"""The lag of a query is what its progress says, under the names that users know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

import spark_connector
from embedded_broker import EmbeddedBroker
from spark_connector.errors import UnknownLagError


def report(end: Mapping[str, object], latest: Mapping[str, object]) -> dict[str, object]:
    texts = [json.dumps({"topics": one, "v": 1}) for one in (end, latest)]
    other = {"endOffset": '{"0":5}', "latestOffset": '{"0":9}'}
    return {"sources": [{"endOffset": texts[0], "latestOffset": texts[1]}, other]}


@pytest.mark.case("SP55")
def test_the_lag_has_kafka_s_names_for_all_queues_and_for_each_topic() -> None:
    progress = report(
        {"T": {"a": {"0": 10, "1": 20}}, "U": {"a": {"0": 7}}},
        {"T": {"a": {"0": 16, "1": 20}}, "U": {"a": {"0": 6}, "b": {"3": 4}}},
    )
    behind = spark_connector.lag(progress)
    assert behind == {("T", "a", 0): 6, ("T", "a", 1): 0, ("U", "a", 0): 0, ("U", "b", 3): 4}
    assert behind.metrics == {
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 6,
        "avgOffsetsBehindLatest": 2.5,
    }
    assert behind.topics == ["T", "U"]
    assert behind.topic("U").metrics["avgOffsetsBehindLatest"] == 2.0
    assert (behind.total, behind.topic("T").total, behind.topic("Nowhere")) == (10, 6, {})


def test_a_query_is_asked_for_its_last_progress_which_may_not_be_there_yet() -> None:
    here: dict[str, object] = {"T": {"a": {"0": 1}}}
    query = SimpleNamespace(lastProgress=report(here, {"T": {"a": {"0": 4}}}))
    assert spark_connector.lag(query).total == 3
    none_yet = spark_connector.lag(SimpleNamespace(lastProgress=None))
    assert (none_yet, spark_connector.lag(None)) == ({}, {})
    assert none_yet.metrics["maxOffsetsBehindLatest"] == 0
    with pytest.raises(TypeError, match="list of sources"):
        spark_connector.lag({"sources": None})


@pytest.mark.case("SP55")
def test_a_queue_whose_end_nobody_knows_is_counted_and_named() -> None:
    done = {"T": {"a": {"0": 10}, "b": {"0": 7}}, "U": {"b": {"1": 2}}}
    behind = spark_connector.lag(report(done, {"T": {"a": {"0": 16}}}))
    assert behind == {("T", "a", 0): 6, ("T", "b", 0): 0, ("U", "b", 1): 0}
    assert behind.missing == {("T", "b", 0), ("U", "b", 1)}
    assert behind.topic("T").missing == {("T", "b", 0)}
    assert behind.topics == ["T", "U"]
    assert not spark_connector.lag(None).missing


def test_a_lag_that_nobody_knows_is_not_0_and_brokers_can_be_asked() -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        for _ in range(5):
            broker.send("T", b"x", queue=0)
        progress = report({"T": {"broker-a": {"0": 2}}}, {})
        progress["sources"][0]["latestOffset"] = None  # type: ignore[index]
        unknown = spark_connector.lag(progress)
        assert unknown.missing == {("T", "broker-a", 0)}
        for figure in ("total", "metrics"):
            with pytest.raises(UnknownLagError, match="asks the brokers"):
                getattr(unknown, figure)
        asked = spark_connector.lag(progress, nameServer=broker.namesrv_addr)
        assert (asked.total, asked.missing) == (3, frozenset())
