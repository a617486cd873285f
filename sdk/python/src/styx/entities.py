"""`Entity`: classes whose instances are entities, beside operators with functions.

A class is an operator: its methods are the operator's functions, its fields
what an entity's value consists of. An instance is made for each invocation.
"""

import dataclasses
import re
import sys
import types
from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar, dataclass_transform, overload

from styx.context import Context
from styx.entity_operator import CREATE, OPTIONS, EntityOperator, declare, make_dataclass
from styx.errors import DefinitionError
from styx.fields import OWN
from styx.own import own_of
from styx.reference import call, is_same_entity

_E = TypeVar("_E", bound="Entity")
_C = TypeVar("_C")
_P = ParamSpec("_P")
_Plain = TypeVar("_Plain", bound=Callable)


@dataclass_transform(eq_default=False, field_specifiers=(dataclasses.field,))
class Entity:
    """Base of classes whose instances are entities::

        class Item(Entity):
            price: int
            stock: int = 0

            def take(self, amount: int) -> int:
                if self.stock < amount:
                    raise ValueError(f"not enough {self.key}")
                self.stock -= amount
                return amount * self.price

    The operator has the class's name in lower case, `order_line` for
    `OrderLine`, unless it is given: `class Item(Entity, name="stock")`.
    """

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        key_prefix: str | None = None,
        _location: tuple[str, int] | None = None,
        **options: Any,
    ) -> None:
        super().__init_subclass__(**options)
        frame = sys._getframe(1)
        location = _location or (frame.f_code.co_filename, frame.f_lineno)
        declare(cls, Entity, _snake_case(cls.__name__) if name is None else name, key_prefix, location)

    @classmethod
    def at(cls, key: str) -> Self:
        """A reference to the entity with a key: its methods are calls in the running transaction."""
        return cls._styx_reference(key)  # type: ignore[attr-defined, no-any-return]

    @classmethod
    def create(cls: "Callable[_P, _E]", key: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _E:
        """Creates an entity in the running transaction, as `__init__` says. One that is there aborts it."""
        operator: EntityOperator = cls._styx_operator  # type: ignore[attr-defined]
        made = call(operator.functions[CREATE], key, args, kwargs)
        return made  # type: ignore[no-any-return]

    def delete(self) -> None:
        """Removes the entity. What the method does to its fields is not kept."""
        own_of(self).delete()

    @property
    def key(self) -> str:
        """The entity's key."""
        return own_of(self).context.key

    @property
    def ctx(self) -> Context:
        """The context of the running invocation: time, random numbers, log lines, calls by name."""
        return EntityContext(self, own_of(self).context)

    def _styx_flush(self) -> None:
        own_of(self).flush(self)

    def _styx_refresh(self) -> None:
        own_of(self).refresh(self)

    def _styx_identity(self) -> Any:
        own = self.__dict__.get(OWN)
        return id(self) if own is None else (type(self), own.context.key)

    __eq__ = is_same_entity

    def __hash__(self) -> int:
        return hash(self._styx_identity())


class EntityContext(Context):
    """The context of a method. What the entity calls by it sees its fields, as by a reference."""

    __slots__ = ("_entity",)

    def __init__(self, entity: Entity, context: Context) -> None:
        super().__init__(context.key, context.state, context._host, context._function)
        self._entity = entity

    # The signatures are those of `Context.call`.
    def call(self, operator: Any, key: str, function: Any, /, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Runs a function on another entity, inside this transaction, and returns its result."""
        self._entity._styx_flush()
        result = Context.call(self, operator, key, function, *args, **kwargs)
        self._entity._styx_refresh()
        return result


@overload
def method(*, read_only: bool = False, name: str | None = None) -> Callable[[_Plain], _Plain]: ...


@overload
def method(function: _Plain, /) -> _Plain: ...


def method(function: Any = None, /, *, read_only: bool = False, name: str | None = None) -> Any:
    """Decorator for a method: what `Operator.register` says of a function."""

    def decorate(function: Any) -> Any:
        setattr(function, OPTIONS, {"read_only": read_only, "name": name})
        return function

    return decorate if function is None else decorate(function)


@overload
def entity(cls: type[_C], /) -> type[_C]: ...


@overload
def entity(*, name: str | None = None, key_prefix: str | None = None) -> Callable[[type[_C]], type[_C]]: ...


@dataclass_transform(eq_default=False, field_specifiers=(dataclasses.field,))
def entity(cls: Any = None, /, *, name: str | None = None, key_prefix: str | None = None) -> Any:
    """Decorator that makes what deriving from `Entity` makes of a plain class."""
    frame = sys._getframe(1)
    location = (frame.f_code.co_filename, frame.f_lineno)

    def decorate(plain: type) -> type:
        if issubclass(plain, Entity):
            raise DefinitionError(f"{plain.__name__} derives from Entity: it needs no decorator", location)
        # Its methods may say super(): it stays the class that they were defined in.
        body = {"__module__": plain.__module__, "__qualname__": plain.__qualname__, "__doc__": plain.__doc__}
        make_dataclass(plain, location)
        options = {"name": name, "key_prefix": key_prefix, "_location": location}
        return types.new_class(plain.__name__, (plain, Entity), options, lambda namespace: namespace.update(body))

    return decorate if cls is None else decorate(cls)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
