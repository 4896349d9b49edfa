"""How strict JSON is read and written: the only module that knows which JSON library is there.

`orjson` when it can be imported, else the standard library with the same refusals (a compiled
wheel cannot travel everywhere). Both raise `ValueError` and nothing else. The server's dialect
with bare keys is in `lenient_json`.
"""

from typing import Any, Protocol, cast


class _Dumps(Protocol):
    def __call__(self, value: object, *, sort_keys: bool = False) -> bytes: ...


class _Loads(Protocol):
    # Any: what a JSON text holds is known only to the caller.
    def __call__(self, text: bytes | str) -> Any: ...


def _standard() -> tuple[_Dumps, _Loads]:
    """Build both functions from the standard library."""
    import json

    def refuse_constant(name: str) -> object:
        raise ValueError(f"{name} is not JSON")

    def dumps(value: object, *, sort_keys: bool = False) -> bytes:
        try:
            text = json.dumps(
                value,
                ensure_ascii=False,
                allow_nan=False,
                separators=(",", ":"),
                sort_keys=sort_keys,
            )
            return text.encode()
        except (TypeError, RecursionError) as error:
            raise ValueError(f"cannot be written as JSON: {error}") from error

    def loads(text: bytes | str) -> Any:
        source = text.decode() if isinstance(text, bytes) else text
        try:
            value = json.loads(source, parse_constant=refuse_constant)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        if "\\u" in source:
            # An escaped lone surrogate is no character: encoding what was read finds it.
            json.dumps(value, ensure_ascii=False).encode()
        return value

    return dumps, loads


def _compiled() -> tuple[_Dumps, _Loads]:
    """Build both functions from orjson."""
    import orjson

    write = orjson.dumps
    sort = orjson.OPT_SORT_KEYS

    def dumps(value: object, *, sort_keys: bool = False) -> bytes:
        try:
            return write(value, None, sort if sort_keys else None)
        except TypeError as error:
            raise ValueError(f"cannot be written as JSON: {error}") from error

    return dumps, cast("_Loads", orjson.loads)


def _choose() -> tuple[_Dumps, _Loads]:
    try:
        return _compiled()
    except ImportError:
        return _standard()


dumps, loads = _choose()
"""`dumps(value, sort_keys=False) -> bytes` and `loads(text) -> value`, both raise `ValueError`."""
