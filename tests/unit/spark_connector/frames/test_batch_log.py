"""What a micro-batch did, by Spark's report of it, and the line that says so."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

import spark_connector
from spark_connector.frames import batch_log
from spark_connector.frames.batch_log import BatchFigures, BatchLog, batch_figures
from spark_connector.frames.lag import Lag
from spark_connector.options.positions import user_positions
from spark_connector.planning.stream_offset import StreamOffset


def offset(*queues: int, topic: str = "T") -> str:
    """An offset of a topic's queues as Spark reports it."""
    places = {topic: {"broker-a": dict(enumerate(queues))}}
    return json.dumps(StreamOffset(user_positions("places", places, low=0)).to_json())


def progress(**source: Any) -> dict[str, Any]:
    """A report of a batch that read 30 offsets, of which a filter left 12."""
    given = {"startOffset": offset(10, 0), "endOffset": offset(30, 10), "numInputRows": 12}
    given |= {"latestOffset": offset(50, 310)} | source
    return {
        "id": "an-id",
        "name": None,
        "batchId": 7,
        "durationMs": {"triggerExecution": 1250},
        "sources": [given],
    }


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that were logged; batch 7 pulled 3 KiB."""
    lines: list[str] = []
    monkeypatch.setattr(batch_log, "tell", lines.append)
    pulled = {("an-id", 7): 3_072}
    monkeypatch.setattr(batch_log, "bytes_of", lambda *key: pulled.get(key))
    return lines


def test_the_figures_of_a_batch_are_those_of_its_report(told: list[str]) -> None:
    found = batch_figures(progress())
    behind = Lag({("T", "broker-a", 0): 20, ("T", "broker-a", 1): 300})
    assert found == BatchFigures("an-id", 7, 12, 30, 3_072, 1.25, behind)
    assert found is not None
    assert found.slowest == ("T", "broker-a", 1)
    assert str(found) == (
        "query an-id, batch 7: 12 rows, 3.0 KiB, 1.25 s; 320 behind, most of it topic T, "
        "broker broker-a, queue 1: 300"
    )
    assert told == []
    assert spark_connector.batch_figures is batch_figures


def test_a_first_batch_began_where_its_end_says(told: list[str]) -> None:
    end = json.dumps(
        StreamOffset(
            user_positions("places", {"T": {"broker-a": {0: 30, 1: 10}}}, low=0),
            lower=user_positions("places", {"T": {"broker-a": {0: 25, 1: 10}}}, low=0),
        ).to_json()
    )
    found = batch_figures(progress(startOffset=None, endOffset=end))
    assert found is not None
    assert found.offsets == 5
    assert told == []


def test_a_query_that_is_up_to_date_has_no_slowest_queue(told: list[str]) -> None:
    found = batch_figures(progress(latestOffset=offset(30, 10)) | {"name": "orders", "batchId": 8})
    assert found is not None
    assert found.slowest is None
    assert str(found) == "query orders, batch 8: 12 rows, unknown bytes, 1.25 s; 0 behind"
    assert told == []


def test_a_repeated_batch_after_a_restart_knows_no_lag(told: list[str]) -> None:
    found = batch_figures(progress(latestOffset=None))
    assert str(found).endswith("; lag unknown")
    assert told == []


def test_a_line_is_logged_for_each_batch_of_this_connector_that_read(told: list[str]) -> None:
    log = BatchLog()

    def report(given: dict[str, Any]) -> None:
        log.onQueryProgress(SimpleNamespace(progress=given))

    report(progress())
    assert [line.partition(":")[0] for line in told] == ["query an-id, batch 7"]
    report(progress(endOffset=offset(10, 0), numInputRows=0))  # nothing read
    report(progress(endOffset='{"T":{"0":5}}', startOffset=None))  # Kafka's
    report(progress(endOffset='{"v":99,"topics":{}}'))  # of a version to come
    assert len(told) == 1


def test_a_line_reaches_standard_error_where_no_logging_is_set_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_connector.servers.stderr_log import tell

    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    tell("batch 7: 12 rows")
    tell("100 % of it")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(" INFO spark_connector: batch 7: 12 rows")
    assert second.endswith(" INFO spark_connector: 100 % of it")


def test_whoever_sets_logging_up_decides_about_the_line(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    from spark_connector.servers.stderr_log import tell

    with caplog.at_level(logging.WARNING, "spark_connector"):
        tell("unheard")
    with caplog.at_level(logging.INFO, "spark_connector"):
        tell("100 % of it")
    assert caplog.messages == ["100 % of it"]
    assert capsys.readouterr().err == ""
