"""`ctx.state`: the entities of the running function's own operator, as JSON values."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar, overload

from styx.codec import from_json, to_json
from styx.convert import Converter, Mismatch, converter_of
from styx.imports import Imports
from styx.stored import StoredType

_SCAN_EVERYTHING = 0

_T = TypeVar("_T")


class State:
    """Reads and writes of the invoked entity and, given a key, of its operator's other entities.

    Values are whatever JSON can express, and dataclasses and enums, which are
    written as their fields and values. A value that was read is a copy: change
    it as you like, it counts when it is put.
    """

    __slots__ = ("_get_own", "_put_own", "_delete_own", "_get", "_put", "_delete", "_scan")

    def __init__(self, imports: Imports) -> None:
        self._get_own = imports.get_own
        self._put_own = imports.put_own
        self._delete_own = imports.delete_own
        self._get = imports.get
        self._put = imports.put
        self._delete = imports.delete
        self._scan = imports.scan

    @overload
    def get(self, key: str | None = None, *, as_type: type[_T]) -> _T | None: ...

    @overload
    def get(self, key: str | None = None, *, as_type: Any = None) -> Any: ...

    def get(self, key: str | None = None, *, as_type: Any = None) -> Any:
        """The value of the invoked entity, or of `key`; None if there is none.

        `as_type` is a type hint (a dataclass, `list[Line]`, ...) to convert the
        value to. Fields that the type no longer has are left out.
        """
        data = self._get_own() if key is None else self._get(key)
        return None if data is None else self._read(data, as_type)

    def put(self, value: Any, key: str | None = None) -> None:
        """Writes the invoked entity, or `key`."""
        if key is None:
            self._put_own(to_json(value))
        else:
            self._put(key, to_json(value))

    def delete(self, key: str | None = None) -> None:
        """Removes the invoked entity, or `key`. Removing an absent one is no error."""
        if key is None:
            self._delete_own()
        else:
            self._delete(key)

    def scan(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        end: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
        as_type: Any = None,
    ) -> Iterator[tuple[str, Any]]:
        """(key, value) of this operator's entities, in the byte order of their keys.

        `prefix` selects keys that begin with it; `start` (included) and `end`
        (excluded) bound them. `after` continues behind a key in the direction
        of the scan; `reverse` runs downwards. The whole range that was looked
        at counts as read, also where nothing was found, so ask for no more
        than is needed. With a key prefix declared, `scan(prefix="w7:")` stays
        on one partition.
        """
        lower = None if start is None else (start, True)
        upper = None if end is None else (end, False)
        if after is not None:
            if reverse:
                upper = (after, False) if end is None else (min(after, end, key=_bytes), False)
            elif start is None or _bytes(after) >= _bytes(start):
                lower = (after, False)
        if limit is None:
            limit = _SCAN_EVERYTHING
        elif limit < 0:
            raise ValueError(f"scan: limit must not be negative, it is {limit}")
        elif limit == 0:
            return iter(())
        entries = self._scan(prefix, lower, upper, limit, reverse)
        return ((key, self._read(data, as_type)) for key, data in entries)

    def _read(self, data: bytes, as_type: Any) -> Any:
        value = from_json(data)
        return value if as_type is None else _convert(value, as_type)


class TypedState(State):
    """The same of an operator that says of what type its values are."""

    __slots__ = ("_stored", "_may_write")

    def __init__(self, imports: Imports, stored: StoredType, may_write: bool) -> None:
        super().__init__(imports)
        self._stored = stored
        self._may_write = may_write

    def get(self, key: str | None = None, *, as_type: Any = None) -> Any:
        """The value of the invoked entity, or of `key`; None if there is none.

        One of an earlier type is migrated, and written if the function may.
        """
        data = self._get_own() if key is None else self._get(key)
        if data is None:
            return None
        value, migrated = self._stored.read(data)
        if migrated is not None and self._may_write:
            if key is None:
                self._put_own(migrated)
            else:
                self._put(key, migrated)
        return self._as_type(value, migrated or data, as_type)

    def put(self, value: Any, key: str | None = None) -> None:
        """Writes the invoked entity, or `key`. Raises TypeError for a value that is not of the operator's type."""
        data = to_json(value)
        self._stored.check(data)
        if key is None:
            self._put_own(data)
        else:
            self._put(key, data)

    def _read(self, data: bytes, as_type: Any) -> Any:
        value, migrated = self._stored.read(data)
        return self._as_type(value, migrated or data, as_type)

    def _as_type(self, value: Any, data: bytes, as_type: Any) -> Any:
        return value if as_type is None or as_type is self._stored.hint else _convert(from_json(data), as_type)


def _bytes(key: str) -> bytes:
    return key.encode()


@lru_cache(maxsize=256)
def _converter(hint: Any) -> Converter | None:
    # Not strict: state outlives the code that wrote it.
    return converter_of(hint, strict=False)


def _convert(value: Any, hint: Any) -> Any:
    converter = _converter(hint)
    if converter is None:
        return value
    try:
        return converter(value)
    except Mismatch as mismatch:
        raise ValueError(f"the stored value does not fit: {mismatch.describe('value')}") from None
