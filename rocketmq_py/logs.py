"""Loggers of this package: what a handler or a filter of the application raises ends no thread.

Answers: how a module gets its logger. A logger calls the handlers of the application, on the thread
that logs: an error of theirs would leave a loop of ours in the middle of its work. It is shown as
``logging`` shows those of its own handlers: on stderr, unless ``logging.raiseExceptions`` is off.
Must not know: what is logged. The logger is the one that ``logging.getLogger`` gives for the name.
"""

import logging
import sys
import threading
import traceback
from contextlib import suppress
from functools import partial


def get_logger(name: str) -> logging.Logger:
    """Give the logger of a name, whose handlers and filters raise nothing to who logs."""
    return shielded(logging.getLogger(name))


def shielded(logger: logging.Logger) -> logging.Logger:
    """Let the handlers and filters of one logger raise nothing to who logs; gives the logger."""
    # Of this logger alone: the application's own stay as they are, and so does its logger class.
    vars(logger)["handle"] = partial(_handle, logger)
    return logger


def _handle(logger: logging.Logger, record: logging.LogRecord) -> None:
    try:
        type(logger).handle(logger, record)
    except BaseException as error:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and not isinstance(error, Exception):
            raise  # a Ctrl-C, or an end of the program that is meant
        _show(record)


def _show(record: logging.LogRecord) -> None:
    if not logging.raiseExceptions or sys.stderr is None:
        return
    with suppress(OSError, ValueError):  # stderr may be closed
        sys.stderr.write(
            f"--- Logging error of {record.name}, called at {record.pathname}:{record.lineno} ---\n"
        )
        traceback.print_exc(file=sys.stderr)
