"""Queue folders: which queues a store has, by the names `consumequeue/TOPIC/NUMBER`.

Answers: topic and number of each, and what becomes of a folder whose name no queue can have: what
lay in it is made again from the commit log, so it is moved to `damaged/` where damage may be left
out, and else refused. Must not know: what lies in the files. Read on: `queue_names.py`.
"""

from collections.abc import Iterator

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.damaged_folder import set_aside, ways_out
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.queue_names import name_problem, number_of, queue_problem


def queue_folders(
    fs: FileSystem, folder: str, mended: list[str] | None
) -> Iterator[tuple[str, int]]:
    """Give topic and number of every queue. Raises ``StoreDamagedError`` for a foreign folder.

    With ``mended`` a foreign one is set aside, and a line about it added.
    """
    for topic in fs.list(folder):
        path = f"{folder}/{topic}"
        names = fs.list(path)
        wrong = name_problem(topic) if names else None
        if wrong is not None:
            _move_away(fs, path, wrong, mended)
            continue
        for name in names:
            number = number_of(name)
            wrong = queue_problem(topic, number)
            if wrong is None and name == str(number):
                yield topic, number
            else:
                _move_away(fs, f"{path}/{name}", "it is no queue number", mended)


def _move_away(fs: FileSystem, path: str, wrong: str, mended: list[str] | None) -> None:
    if mended is None:
        raise StoreDamagedError(
            f"{path} is no folder of a queue ({wrong}). Nothing was changed. {ways_out(fs)}"
        )
    kept = set_aside(fs, path)
    mended.append(f"{path} is no folder of a queue ({wrong}): moved to {kept}")
