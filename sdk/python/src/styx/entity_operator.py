"""The operator that a class of entities is: its functions run methods on instances."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from styx.codec import to_json
from styx.context import Context
from styx.errors import Abort, DefinitionError
from styx.fields import OWN, Fields
from styx.operator import ENTRIES, Function, Operator, settle
from styx.own import Own
from styx.reference import Reference, reference_class, running
from styx.shape import Shape, Unsupported
from styx.stored import StoredType
from styx.written import WRITINGS, Writing

CREATE = "create"
#: The class method that makes an entity of one of an earlier type.
MIGRATION = "migrate"
#: How a method's options are kept.
OPTIONS = "__styx_method__"
#: Set on an `__init__` that was made of fields.
_MADE = "__styx_made__"


class NotFound(Abort):
    """A method was called on an entity that was not created, and whose fields have no defaults."""

    code = "NOT_FOUND"


class AlreadyExists(Abort):
    """An entity was created that is there already."""

    code = "ALREADY_EXISTS"


class EntityOperator(Operator):
    """The operator of a class."""

    def __init__(self, name: str, *, cls: type, key_prefix: str | None, doc: str, location: tuple[str, int]) -> None:
        super().__init__(name, key_prefix=key_prefix, doc=doc, location=location)
        self.cls = cls
        self.fields = Fields(cls)
        self.stored = StoredFields(self)


class StoredFields(StoredType):
    """What the values of a class of entities are: its fields."""

    def __init__(self, operator: EntityOperator) -> None:
        super().__init__(operator, operator.cls)
        self._cls, self._fields = operator.cls, operator.fields

    def _resolve(self) -> Shape:
        self._fields.prepare()
        return self._fields.record

    def _written(self, made: Any) -> bytes:
        return self._fields.write(made) if isinstance(made, self._cls) else to_json(made)

    def migrate(self, values: Any) -> bytes:
        """Also as an instance is written: with all of its fields, in their order."""
        again = self._cls.__new__(self._cls)
        self._fields.read(again, super().migrate(values))
        return self._fields.write(again)


class Creation(Function):
    """The function that creates an entity of a class: its parameters are those of `__init__`."""

    def __init__(self, operator: EntityOperator, run: Callable) -> None:
        cls = operator.cls
        super().__init__(operator, cls.__init__, name=CREATE, read_only=False, run=run)  # type: ignore[misc]
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


def declare(cls: Any, base: type, name: str, key_prefix: str | None, location: tuple[str, int]) -> None:
    """Makes an operator of a class that derives from `base`, whose names are taken."""
    doc = inspect.cleandoc(vars(cls).get("__doc__") or "")
    make_dataclass(cls, location)
    operator = cls._styx_operator = EntityOperator(name, cls=cls, key_prefix=key_prefix, doc=doc, location=location)
    for taken in ("key", "ctx", "at", CREATE):
        if inspect.getattr_static(cls, taken, None) is not vars(base)[taken] or taken in cls.__dataclass_fields__:
            raise DefinitionError(f"{name}: every entity has {taken!r} already: give yours another name", location)
    migration = inspect.getattr_static(cls, MIGRATION, None)
    if isinstance(migration, (classmethod, staticmethod)):
        operator.stored.migrates_by(getattr(cls, MIGRATION), location)
    methods: dict[str, Function] = {}
    for ancestor in reversed(cls.__mro__):
        if ancestor in (object, base):
            continue
        for attribute, value in vars(ancestor).items():
            methods.pop(attribute, None)
            if inspect.isfunction(value) and not attribute.startswith("_"):
                options = getattr(value, OPTIONS, {"read_only": False, "name": None})
                methods[attribute] = Function(operator, value, run=_runner(operator, value), **options)
    for attribute, function in methods.items():
        if function.name in operator.functions:
            raise DefinitionError(f"{function} is declared twice: give one of them another name", function.location)
        operator.functions[function.name] = function
        # `ctx.call(Item, "pen", Item.take, 1)` finds it here.
        vars(inspect.getattr_static(cls, attribute)).setdefault(ENTRIES, {})[name] = function
    if CREATE in operator.functions:
        raise DefinitionError(f"{name}: every entity has {CREATE!r} already: give yours another name", location)
    operator.functions[CREATE] = _creation(operator)
    cls._styx_reference = reference_class(cls, methods)
    # A hint that names the class is the key as JSON, and a reference for Python.
    schema = {"title": cls.__name__, "description": f"key of an entity of {name}"}
    writing = Writing(f"the key of an entity of {name}", schema, _key_of, _reader(cls._styx_reference))
    WRITINGS[cls] = WRITINGS[cls._styx_reference] = writing


def make_dataclass(cls: Any, location: tuple[str, int]) -> None:
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
        own = loaded.__dict__[OWN] = Own(ctx, fields, data)
        outer, running.caller = running.caller, loaded
        try:
            if data is None:
                _begin(operator, loaded)
                own.unchanged = fields.write(loaded)
            else:
                own.load(loaded)
            result = python(loaded, *values)
            if is_async:
                result = settle(result, python)
        finally:
            running.caller = outer
        own.flush(loaded)
        return result

    return run


def _begin(operator: EntityOperator, loaded: Any) -> None:
    """An entity that was never created begins with defaults, if everything has one."""
    if any(parameter.required for parameter in operator.functions[CREATE].parameters):
        raise NotFound(f"there is no {operator.name} {loaded.key!r}")
    loaded.__init__()


def _creation(operator: EntityOperator) -> Function:
    cls = operator.cls

    def run(ctx: Context, *values: Any) -> Any:
        if ctx.state._get_own() is not None:
            raise AlreadyExists(f"the {operator.name} {ctx.key!r} exists already")
        made = cls.__new__(cls)
        own = made.__dict__[OWN] = Own(ctx, operator.fields, None)
        outer, running.caller = running.caller, made
        try:
            made.__init__(*values)
        finally:
            running.caller = outer
        own.flush(made)
        return made

    return Creation(operator, run)


def _with_default(parameter: inspect.Parameter, cls: type) -> inspect.Parameter:
    """A parameter whose default is one, where the field has a factory."""
    field = cls.__dataclass_fields__.get(parameter.name)
    if field is None or field.default_factory is dataclasses.MISSING:
        return parameter
    return parameter.replace(default=field.default_factory())


def _key_of(value: Any) -> str:
    return value.key


def _reader(make: type[Reference]) -> Callable[[Any], Any]:
    def read(key: Any) -> Any:
        if not isinstance(key, str):
            raise ValueError
        return make(key)

    return read
