"""References: entities of a class that are somewhere else, known by their keys.

`Item.at("pen")` is one, and so is a parameter or a field that has `Item` as its
hint. Its methods are calls in the running transaction. As JSON it is its key.
"""

from collections.abc import Callable
from typing import Any, Protocol

from styx.codec import from_json, to_json
from styx.context import _converted, _key
from styx.imports import Imports
from styx.operator import Function


class Caller(Protocol):
    """An entity whose method runs: it and what it calls see each other's writes."""

    def _styx_flush(self) -> None: ...

    def _styx_refresh(self) -> None: ...


class Running:
    """Who runs in this process. An instance of a component runs one function at a time, and so does a test host."""

    __slots__ = ("imports", "caller")

    def __init__(self) -> None:
        self.imports: Imports | None = None
        #: The entity whose method runs, if it is a method that does.
        self.caller: Caller | None = None


running = Running()


def is_same_entity(one: Any, other: Any) -> Any:
    """`==` of references and of instances, whichever of them it is between."""
    identity = getattr(other, "_styx_identity", None)
    return NotImplemented if identity is None else one._styx_identity() == identity()


class Reference:
    """Base of the references of all classes. It has the class's methods, and none of its fields."""

    __slots__ = ("key",)

    key: str
    _styx_class: type

    def __init__(self, key: str) -> None:
        object.__setattr__(self, "key", _key(key))

    def __getattr__(self, name: str) -> Any:
        cls = self._styx_class
        if name.startswith("__") or not hasattr(cls, name) and name not in cls.__dataclass_fields__:
            raise AttributeError(f"{cls.__name__} has no method {name!r}")
        raise AttributeError(
            f"{self!r} is a reference, and {cls.__name__}.{name} is only seen inside: write a method that returns it"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self!r} is a reference: only a method of {self._styx_class.__name__} can set {name!r}")

    def _styx_identity(self) -> Any:
        return self._styx_class, self.key

    __eq__ = is_same_entity

    def __hash__(self) -> int:
        return hash(self._styx_identity())

    def __repr__(self) -> str:
        return f"{self._styx_class.__name__}.at({self.key!r})"


def reference_class(cls: type, functions: dict[str, Function]) -> type[Reference]:
    """The references of a class: `functions` by the names of the methods."""
    body: dict[str, Any] = {name: _method(function) for name, function in functions.items()}
    # What has the class as its hint is an instance of it.
    body |= {"__slots__": (), "_styx_class": cls, "__class__": property(lambda self: cls)}
    return type(cls.__name__, (Reference,), body)


def call(function: Function, key: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Runs a method of another entity inside the running transaction."""
    imports, caller = running.imports, running.caller
    if imports is None:
        raise RuntimeError(
            f"{function} was called while no transaction runs: in a test, call it through styx.testing.Host"
        )
    values = to_json(function.arrange(args, kwargs))
    if caller is None:
        data = imports.call(function.operator_name, key, function.name, values)
    else:
        caller._styx_flush()
        data = imports.call(function.operator_name, key, function.name, values)
        caller._styx_refresh()
    result = from_json(data)
    return result if function.read_result is None else _converted(function, result)


def _method(function: Function) -> Callable:
    if function.is_async:

        async def method(self: Reference, /, *args: Any, **kwargs: Any) -> Any:
            return call(function, self.key, args, kwargs)

    else:

        def method(self: Reference, /, *args: Any, **kwargs: Any) -> Any:
            return call(function, self.key, args, kwargs)

    return method
