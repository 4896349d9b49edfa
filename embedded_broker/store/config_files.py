"""How the broker's tables survive a restart: the JSON files under ``config/``.

Every save makes the previous file the ``.bak``, so that a crash in the middle leaves one good
generation. Reading accepts what Java writes (bare integer keys, pretty or not). Must not know: what
the tables mean. Rules as ``ConfigManager.persist`` / ``load``; formats in
``rocketmq_py.protocol.lenient_json``. Read on: ``tables/topics/``, ``tables/offsets/``,
``timer/levels/service.py``.
"""

from __future__ import annotations

import logging
import posixpath
from typing import Any

from embedded_broker.store.fs import FileSystem
from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.lenient_json import dumps_fastjson, loads_lenient

__all__ = ["JsonConfigFile"]

_LOG = logging.getLogger(__name__)


class JsonConfigFile:
    """One file, such as ``config/topics.json``.

    ``pretty`` writes tabs and line breaks as the original's ``topics.json`` has them; without it
    the file is one line, as ``timermetrics`` is.
    """

    def __init__(self, fs: FileSystem, path: str, *, pretty: bool = True) -> None:
        self._fs = fs
        self._pretty = pretty
        self.path = path
        self.backup_path = path + ".bak"

    def load(self) -> Any | None:  # a JSON edge: each table checks its own shape
        """Give the decoded content; of the backup if the file is missing, empty or unreadable.

        None if there is neither. An unreadable main file is removed, so that the next save does
        not make it the backup.
        """
        found = self._read(self.path)
        if found is None:
            self._fs.remove(self.path)
            found = self._read(self.backup_path)
        return found

    def save(self, content: Any) -> None:
        """Write the content durably; the previous file becomes the backup.

        Raises ``StoreError``; then the backup still holds the previous content.
        """
        data = dumps_fastjson(content, pretty=self._pretty)
        folder = posixpath.dirname(self.path)
        if self._fs.exists(self.path):
            self._fs.rename(self.path, self.backup_path)
            self._fs.sync_dir(folder)
        self._fs.write_file(self.path, data)
        self._fs.sync_file(self.path)
        self._fs.sync_dir(folder)

    def _read(self, path: str) -> Any | None:
        if not self._fs.exists(path):
            return None
        data = self._fs.read_file(path)
        if not data.strip():
            return None
        try:
            return loads_lenient(data)
        except BodyError as error:
            _LOG.warning("unreadable config file %s: %s", path, error)
            return None
