"""Options of functions are written as Spark writes those of a read or write."""

from __future__ import annotations

from spark_connector.frames.row_calls import option_texts


def test_options_may_be_given_as_what_they_are() -> None:
    given = {"topic": "T", "batchSend": False, "maxInFlight": 8, "tags": None}
    assert option_texts(given) == {"topic": "T", "batchSend": "false", "maxInFlight": "8"}
