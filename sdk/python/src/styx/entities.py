"""`Entity`: classes whose instances are entities, beside operators with functions.

A class is an operator: its methods are the operator's functions, its fields
what an entity's value consists of. An instance is made for each invocation.
"""

import dataclasses
import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar, dataclass_transform, overload

from styx.context import Context
from styx.errors import Abort, DefinitionError
from styx.fields import OWN, Fields
from styx.operator import ENTRIES, Function, Operator, settle
from styx.reference import Reference, call, is_same_entity, reference_class, running
from styx.shape import Unsupported
from styx.written import WRITINGS, Writing

_E = TypeVar("_E", bound="Entity")
_C = TypeVar("_C")
_P = ParamSpec("_P")
_Plain = TypeVar("_Plain", bound=Callable)

_CREATE = "create"
#: How `@method` marks a function.
_OPTIONS = "__styx_method__"
#: Set on an `__init__` that was made of fields.
_MADE = "__styx_made__"


class NotFound(Abort):
    """A method was called on an entity that was not created, and whose fields have no defaults."""

    code = "NOT_FOUND"


class AlreadyExists(Abort):
    """An entity was created that is there already."""

    code = "ALREADY_EXISTS"


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
        _declare(cls, _snake_case(cls.__name__) if name is None else name, key_prefix, location)

    @classmethod
    def at(cls, key: str) -> Self:
        """A reference to the entity with a key: its methods are calls in the running transaction."""
        return cls._styx_reference(key)  # type: ignore[attr-defined, no-any-return]

    @classmethod
    def create(cls: "Callable[_P, _E]", key: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _E:
        """Creates an entity in the running transaction, with the arguments of `__init__`. One that is there aborts it."""
        operator: EntityOperator = cls._styx_operator  # type: ignore[attr-defined]
        made = call(operator.functions[_CREATE], key, args, kwargs)
        return made  # type: ignore[no-any-return]

    def delete(self) -> None:
        """Removes the entity. What the method does to its fields is not kept."""
        own = self._styx_require()
        own.is_deleted = True
        own.context.state.delete()

    @property
    def key(self) -> str:
        """The entity's key."""
        return self._styx_require().context.key

    @property
    def ctx(self) -> Context:
        """The context of the running invocation: time, random numbers, log lines, calls by name."""
        return EntityContext(self, self._styx_require().context)

    def _styx_require(self) -> "_Own":
        own = self.__dict__.get(OWN)
        if own is None:
            raise RuntimeError(f"this {type(self).__name__} was made outside of a transaction: it has no key and no context")
        return own

    def _styx_flush(self) -> None:
        own = self.__dict__[OWN]
        if own.is_deleted:
            return
        fields = self._styx_operator.fields
        if own.values is not None and fields.has(self, own.values):
            return
        data = fields.write(self)
        if data == own.unchanged or own.is_read_only and _is_same(self, data, own):
            return
        fields.check(self, data)
        own.context.state._put_own(data)
        own.stored = own.unchanged = data
        own.values = None

    def _styx_refresh(self) -> None:
        own = self.__dict__[OWN]
        data = own.context.state._get_own()
        if data == own.stored or own.is_deleted:
            return
        own.stored = data
        if data is not None:
            own.values = self._styx_operator.fields.read(self, data)
            own.unchanged = data

    def _styx_identity(self) -> Any:
        own = self.__dict__.get(OWN)
        return id(self) if own is None else (type(self), own.context.key)

    __eq__ = is_same_entity

    def __hash__(self) -> int:
        return hash(self._styx_identity())


class _Own:
    """What is known of the entity behind an instance."""

    __slots__ = ("context", "stored", "unchanged", "values", "is_read_only", "is_deleted")

    def __init__(self, context: Context, stored: bytes | None) -> None:
        self.context = context
        #: What the host has; None for nothing.
        self.stored = stored
        #: What the fields are written as while nothing is changed.
        self.unchanged = stored
        #: The fields' values as they were read, if that alone tells whether they are changed.
        self.values: dict[str, Any] | None = None
        self.is_read_only = context._function.read_only
        self.is_deleted = False


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


class EntityOperator(Operator):
    """The operator of a class."""

    def __init__(self, name: str, *, cls: type, key_prefix: str | None, doc: str, location: tuple[str, int]) -> None:
        super().__init__(name, key_prefix=key_prefix, doc=doc, location=location)
        self.cls = cls
        self.fields = Fields(cls)


class Creation(Function):
    """The function that creates an entity of a class: its parameters are those of `__init__`."""

    def __init__(self, operator: EntityOperator, run: Callable) -> None:
        cls = operator.cls
        super().__init__(operator, cls.__init__, name=_CREATE, read_only=False, run=run)  # type: ignore[misc]
        self._operator = operator
        self._is_made = _own_init(cls) is None
        if self._is_made:
            self._signature = [_with_default(parameter, cls) for parameter in self._signature]
        written = None if self._is_made else cls.__init__.__doc__  # type: ignore[misc]
        self.doc = inspect.cleandoc(written) if written else f"Creates the {operator.name}."

    def prepare(self) -> Function:
        """Resolves the hints of the fields as well."""
        if not self._is_prepared:
            try:
                self._operator.fields.prepare()
            except Unsupported as error:
                raise DefinitionError(f"{self._operator.name}: {error}", self.location) from None
        return super().prepare()

    def _hints(self) -> dict[str, Any]:
        hints = self._operator.fields.hints() if self._is_made else super()._hints()
        return {**hints, "return": self._operator.cls}


@overload
def method(*, read_only: bool = False, name: str | None = None) -> Callable[[_Plain], _Plain]: ...


@overload
def method(function: _Plain, /) -> _Plain: ...


def method(function: Any = None, /, *, read_only: bool = False, name: str | None = None) -> Any:
    """Decorator for a method: what `Operator.register` says of a function."""

    def decorate(function: Any) -> Any:
        setattr(function, _OPTIONS, {"read_only": read_only, "name": name})
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
        _make_dataclass(plain, location)
        options = {"name": name, "key_prefix": key_prefix, "_location": location}
        return types.new_class(plain.__name__, (plain, Entity), options, lambda namespace: namespace.update(body))

    return decorate if cls is None else decorate(cls)


def _declare(cls: Any, name: str, key_prefix: str | None, location: tuple[str, int]) -> None:
    """Makes an operator of a class."""
    doc = inspect.cleandoc(vars(cls).get("__doc__") or "")
    _make_dataclass(cls, location)
    operator = cls._styx_operator = EntityOperator(name, cls=cls, key_prefix=key_prefix, doc=doc, location=location)
    for taken in ("key", "ctx", "at", _CREATE):
        if inspect.getattr_static(cls, taken, None) is not vars(Entity)[taken] or taken in cls.__dataclass_fields__:
            raise DefinitionError(f"{name}: every entity has {taken!r} already: give yours another name", location)
    methods: dict[str, Function] = {}
    for base in reversed(cls.__mro__):
        if base in (object, Entity):
            continue
        for attribute, value in vars(base).items():
            methods.pop(attribute, None)
            if inspect.isfunction(value) and not attribute.startswith("_"):
                options = getattr(value, _OPTIONS, {"read_only": False, "name": None})
                methods[attribute] = Function(operator, value, run=_runner(operator, value), **options)
    for attribute, function in methods.items():
        if function.name in operator.functions:
            raise DefinitionError(f"{function} is declared twice: give one of them another name", function.location)
        operator.functions[function.name] = function
        # `ctx.call(Item, "pen", Item.take, 1)` finds it here.
        vars(inspect.getattr_static(cls, attribute)).setdefault(ENTRIES, {})[name] = function
    if _CREATE in operator.functions:
        raise DefinitionError(f"{name}: every entity has {_CREATE!r} already: give yours another name", location)
    operator.functions[_CREATE] = _creation(operator)
    cls._styx_reference = reference_class(cls, methods)
    # A hint that names the class is the key as JSON, and a reference for Python.
    schema = {"title": cls.__name__, "description": f"key of an entity of {name}"}
    writing = Writing(f"the key of an entity of {name}", schema, _key_of, _reader(cls._styx_reference))
    WRITINGS[cls] = WRITINGS[cls._styx_reference] = writing


def _make_dataclass(cls: Any, location: tuple[str, int]) -> None:
    """Gives a class its fields, and an `__init__` unless it has its own."""
    has_own = _own_init(cls) is not None
    try:
        dataclasses.dataclass(eq=False, init=not has_own)(cls)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{cls.__name__}: {error}", location) from None
    if not has_own:
        setattr(vars(cls)["__init__"], _MADE, True)


def _own_init(cls: type) -> Callable | None:
    """The `__init__` that somebody wrote."""
    init = cls.__init__  # type: ignore[misc]
    return init if init is not object.__init__ and not hasattr(init, _MADE) else None


def _runner(operator: EntityOperator, python: Callable) -> Callable:
    """A method as the host runs it."""
    cls, fields = operator.cls, operator.fields
    is_async = inspect.iscoroutinefunction(python)

    def run(ctx: Context, *values: Any) -> Any:
        data = ctx.state._get_own()
        loaded = cls.__new__(cls)
        own = loaded.__dict__[OWN] = _Own(ctx, data)
        outer, running.caller = running.caller, loaded
        try:
            if data is None:
                _begin(operator, loaded)
                own.unchanged = fields.write(loaded)
            else:
                own.values = fields.read(loaded, data)
            result = python(loaded, *values)
            if is_async:
                result = settle(result, python)
        finally:
            running.caller = outer
        loaded._styx_flush()
        return result

    return run


def _begin(operator: EntityOperator, loaded: Any) -> None:
    """An entity that was never created begins with defaults, if everything has one."""
    if any(parameter.required for parameter in operator.functions[_CREATE].parameters):
        raise NotFound(f"there is no {operator.name} {loaded.key!r}")
    loaded.__init__()


def _creation(operator: EntityOperator) -> Function:
    cls = operator.cls

    def run(ctx: Context, *values: Any) -> Any:
        if ctx.state._get_own() is not None:
            raise AlreadyExists(f"the {operator.name} {ctx.key!r} exists already")
        made = cls.__new__(cls)
        made.__dict__[OWN] = _Own(ctx, None)
        outer, running.caller = running.caller, made
        try:
            made.__init__(*values)
        finally:
            running.caller = outer
        made._styx_flush()
        return made

    return Creation(operator, run)


def _with_default(parameter: inspect.Parameter, cls: type) -> inspect.Parameter:
    """A parameter whose default is one, where the field has a factory."""
    field = cls.__dataclass_fields__.get(parameter.name)
    if field is None or field.default_factory is dataclasses.MISSING:
        return parameter
    return parameter.replace(default=field.default_factory())


def _is_same(loaded: Entity, data: bytes, own: _Own) -> bool:
    """Whether what is written in other words says what is stored: a field that is new, a number of another form."""
    if own.stored is None:
        return False
    fields = loaded._styx_operator.fields
    again = type(loaded).__new__(type(loaded))
    fields.read(again, own.stored)
    return fields.write(again) == data


def _key_of(value: Any) -> str:
    return value.key


def _reader(make: type[Reference]) -> Callable[[Any], Any]:
    def read(key: Any) -> Any:
        if not isinstance(key, str):
            raise ValueError
        return make(key)

    return read


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
