"""How a blocking administrator runs acts: on the thread that calls, each in one step.

The life of the two blocking clients; must not know which acts there are. Read on: ``client.py``,
``java.py``, ``../administration/servers.py``.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

from attrs import define, setters

from rocketmq_py.administration.servers import Blocking, Servers, finished
from rocketmq_py.administration.settings import AdminConfig
from rocketmq_py.client.asking import Asker
from rocketmq_py.client.caller import Caller
from rocketmq_py.config import explained

_T = TypeVar("_T")


@explained
@define(kw_only=True, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class BlockingAdmin(AdminConfig, Caller):
    """Acts are possible between `start` and `shutdown`, or inside ``with``."""

    @property
    def _servers(self) -> Servers:
        return Blocking(self, Asker(self._instance))

    def _do(self, act: Coroutine[Any, Any, _T]) -> _T:
        return finished(act)
