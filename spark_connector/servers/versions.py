"""Whether the program, the process that plans, and the worker that reads run the same software.

Spark carries readers and writers from one to the other as pickled objects. Another version of
this package would misread them, so they travel wrapped: outside who wrote them, in plain texts
that every version can read, inside their state, which is only opened when both sides run the
same. Must not know what readers and writers hold. Read on: ``reading/batch_reader.py``.
"""

import logging
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen
from pyspark import cloudpickle

from rocketmq_py import __version__
from spark_connector.errors import VersionError
from spark_connector.servers.worker_heap import settle

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger("spark_connector")


def tell_other_python(context: "SparkContext") -> None:
    """Log a warning when workers on this machine run another Python than the program.

    Spark starts ``python3`` of the PATH unless it is told otherwise. Only of a local master it is
    known where that is.
    """
    if not context.master.startswith("local"):
        return
    theirs = shutil.which(context.pythonExec) or context.pythonExec
    if Path(theirs).absolute() != Path(sys.executable).absolute():
        _log.warning(
            "Spark's workers run %s and this program %s. Unless that one has rocketmq-py and "
            "pyarrow, too, reads and writes fail there: set PYSPARK_PYTHON=%s before the session "
            "is made",
            theirs,
            sys.executable,
            sys.executable,
        )


def origin() -> dict[str, str]:
    """Return what must be the same in both processes, and the host for the error's text."""
    return {
        "Python": ".".join(map(str, sys.version_info[:2])),
        "rocketmq-py": __version__,
        "host": platform.node(),
    }


def check_origin(planned: dict[str, str]) -> None:
    """Raise `VersionError` when the planner runs another Python minor or package version."""
    here = origin()
    different = [
        f"{name} {planned.get(name, 'of an unknown version')} there and {here[name]} here"
        for name in ("Python", "rocketmq-py")
        if planned.get(name) != here[name]
    ]
    if different:
        raise VersionError(
            f"the process that planned this query (on {planned.get('host', 'another host')}) and "
            f"this worker ({sys.executable} on {here['host']}) differ: {', '.join(different)}. "
            "Install the same on both (PYSPARK_PYTHON names the worker's Python), or send the "
            "package along: python -m spark_connector bundle OUT.zip, and --py-files OUT.zip"
        )


class Shipped:
    """A reader or writer that may be unpickled in another process than it was made in."""

    def carried(self) -> dict[str, Any]:  # Any: attributes of any type
        """Return the attributes that travel; all of them unless a class says otherwise."""
        return dict(self.__dict__)

    def __getstate__(self) -> tuple[dict[str, str], bytes]:
        # Spark's pickler, so that modules registered to be sent by value are.
        return origin(), cloudpickle.dumps(self.carried())

    def __reduce__(self) -> tuple[Callable[[bytes], object], tuple[bytes]]:
        return in_package(Call(_revived, (type(self), self.__getstate__())))

    def __setstate__(self, state: tuple[dict[str, str], bytes]) -> None:
        planned, carried = state
        check_origin(planned)
        settle()  # a task begins with what it reads or writes by; a writer comes without its source
        self.__dict__.update(cloudpickle.loads(carried))


def _revived(kind: type[Shipped], state: tuple[dict[str, str], bytes]) -> Shipped:
    made = kind.__new__(kind)
    made.__setstate__(state)
    return made


@frozen
class Call:
    """What becomes the result of a call when it is unpickled."""

    function: Callable[..., object]
    arguments: tuple[object, ...]

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.function, self.arguments


def in_package(content: object) -> tuple[Callable[[bytes], object], tuple[bytes]]:
    """Return what an object's ``__reduce__`` gives so that ``content`` takes its place elsewhere.

    Where this package, or what it needs, is missing, ImportError says what to do: the pickle begins
    with a function that comes with its code, and opens the rest.
    """
    opening = Call(_opener(), (cloudpickle.dumps(content),))
    return cloudpickle.loads, (cloudpickle.dumps(opening),)


def _opener() -> Callable[[bytes], object]:
    """Return a function that is no module's, so that Spark's pickler sends it by value."""

    def opened(content: bytes) -> object:
        import pickle
        import platform
        import sys

        try:
            return pickle.loads(content)  # noqa: S301 - Spark itself sends all by pickle
        except ImportError as error:
            raise ImportError(
                f"{error}: {sys.executable} on {platform.node()} lacks it, and Spark runs its "
                "workers by this Python. Set PYSPARK_PYTHON, before the session is made, to a "
                "Python that has rocketmq-py, pyarrow and numpy. On a cluster install them there, "
                "or send the package along: python -m spark_connector bundle OUT.zip, and "
                "--py-files OUT.zip"
            ) from error

    return opened
