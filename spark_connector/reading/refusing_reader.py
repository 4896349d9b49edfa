"""What stands for a stream's reader when its options or columns are wrong.

Spark hides an error of the call that makes a stream's reader behind one of its own, so that call
gives a reader whose every method raises what was found. Must not know options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from rocketmq_py import RocketMQError

__all__ = ["RefusingStreamReader"]


class RefusingStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises one error whatever it is asked; only `stop` works."""

    def __init__(self, error: RocketMQError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        raise self._error from None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Raise the error."""
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Raise the error."""
        self._refuse()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Raise the error."""
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Raise the error."""
        self._refuse()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Raise the error."""
        self._refuse()

    def partitions(
        self,
        start: dict[str, Any],  # noqa: ARG002 - Spark's signature
        end: dict[str, Any],  # noqa: ARG002 - Spark's signature
    ) -> Sequence[InputPartition]:
        """Raise the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        """Raise the error."""
        self._refuse()
