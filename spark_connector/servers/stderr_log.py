"""Gives log lines of Spark's Python workers a time and a level, where nobody else does.

Spark sets no logging up in its workers, so that Python writes bare texts to stderr, between the
lines of the executor, which have both. Whatever a user or Spark sets up takes the place of this.
Must not know what is logged. Read on: ``task_log.py``.
"""

import logging
import os
import sys

LOGGERS = ("spark_connector", "rocketmq_py")
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
TIME_FORMAT = "%y/%m/%d %H:%M:%S"
"""As Spark writes it."""
WORKER_MARKS = frozenset({"SPARK_PYTHON_RUNTIME", "PYTHON_WORKER_FACTORY_SECRET"})
"""Variables that Spark sets in its Python workers, the first from 4.2 on."""


class LastResort(logging.Handler):
    """Writes to stderr as long as the root logger has no handler."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line to what is stderr now: Spark exchanges it."""
        if not logging.getLogger().handlers and sys.stderr is not None:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()


def tell(text: str) -> None:
    """Log a line that a user is to see without asking: where no logging is set up, on stderr.

    It is INFO, so whoever sets logging up decides about it.
    """
    log = logging.getLogger(LOGGERS[0])
    if log.hasHandlers() or log.isEnabledFor(logging.INFO):
        log.info(text)
        return
    handler = LastResort()
    handler.setFormatter(logging.Formatter(FORMAT, TIME_FORMAT))
    handler.emit(log.makeRecord(log.name, logging.INFO, __file__, 0, text, (), None))


def set_up() -> None:
    """Set it up once in a Python worker of Spark, and in no other process."""
    if WORKER_MARKS.isdisjoint(os.environ):
        return
    handler = LastResort(logging.WARNING)
    handler.setFormatter(logging.Formatter(FORMAT, TIME_FORMAT))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(handler)
