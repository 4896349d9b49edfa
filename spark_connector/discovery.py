"""What makes ``format("rocketmq")`` work right after ``pip install``, without `register`.

At its first look for an unknown format Spark imports every top-level module named ``pyspark_*``
and takes its `DefaultSource`. In the wheel this file is also the module ``pyspark_rocketmq``; in
the source tree there is no such module. Nothing optional is imported here but PySpark itself,
because one module that fails to import hides the sources of all others.
"""

from spark_connector.source import RocketMQDataSource

DefaultSource = RocketMQDataSource
