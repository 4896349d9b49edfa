"""How a blocking administrator runs acts: on the thread that calls, each in one step.

The life of the two blocking clients; must not know which acts there are. Read on: ``client.py``,
``java.py``, ``../administration/servers.py``.
"""

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from attrs import define, setters

from rocketmq_py.administration.servers import Blocking, Servers, finished
from rocketmq_py.administration.settings import AdminConfig
from rocketmq_py.client.asking import Asker
from rocketmq_py.client.caller import Caller
from rocketmq_py.config import explained

_P = ParamSpec("_P")
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_Act = Coroutine[Any, Any, _T]


@explained
@define(kw_only=True, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class BlockingAdmin(AdminConfig, Caller):
    """Calls are possible between `start` and `shutdown`, or inside ``with``."""

    @property
    def _servers(self) -> Servers:
        return Blocking(self, Asker(self._instance))

    def _do(self, act: _Act[_T]) -> _T:
        return finished(act)


class Method(Protocol[_P, _T_co]):
    """A function of a class, as type checkers see it."""

    @overload
    def __get__(self, client: None, kind: type) -> Callable[Concatenate[Any, _P], _T_co]: ...

    @overload
    def __get__(self, client: object, kind: type) -> Callable[_P, _T_co]: ...


def blocking(call: Callable[Concatenate[Any, _P], _Act[_T]]) -> Method[_P, _T]:
    """Make a function that runs the act of a coroutine function, with its signature and text."""

    def do(client: BlockingAdmin, /, *args: _P.args, **given: _P.kwargs) -> _T:
        return client._do(call(client, *args, **given))  # noqa: SLF001 - it is a method of it

    made: Any = update_wrapper(do, call)  # a function is a descriptor, which checkers do not see
    return made  # type: ignore[no-any-return]
