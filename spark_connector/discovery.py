"""What makes ``format("rocketmq")`` work right after ``pip install``, without `register`.

At its first look for an unknown format Spark imports every top-level module named ``pyspark_*``
and takes its `DefaultSource`. In the wheel this file is also the module ``pyspark_rocketmq``; in
the source tree there is no such module. It never fails to import, because older Sparks then find
the sources of no other module either: what is wrong is said by whoever uses the format.
"""

from typing import NoReturn

from pyspark.sql.datasource import DataSource


def _refusing(problem: str) -> type[DataSource]:
    """Return a source that raises ImportError when it is used."""

    class RefusingSource(DataSource):
        """Stands for the source where something that it needs is missing."""

        @classmethod
        def name(cls) -> str:
            return "rocketmq"

        def _refuse(self, *_asked: object) -> NoReturn:
            raise ImportError(problem)

        schema = reader = streamReader = writer = streamWriter = _refuse  # noqa: N815 - Spark's

    return RefusingSource


DefaultSource: type[DataSource]
try:
    from spark_connector.source import RocketMQDataSource
except Exception as error:  # noqa: BLE001 - whatever it is, other sources must not suffer
    DefaultSource = _refusing(f"{type(error).__name__}: {error}")
else:
    DefaultSource = RocketMQDataSource
