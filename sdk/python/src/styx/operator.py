"""Operators and the functions registered with them.

Registering only remembers; hints are resolved when the component is built (or
a test host is made), because they may name what is defined further down.
"""

import inspect
import re
import sys
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any

from styx.codec import to_json
from styx.convert import Converter, Mismatch, converter_of_shape, exact_type, keeps_values
from styx.errors import DefinitionError, Rejected
from styx.schema import schema_of_shape
from styx.shape import Anything, Shape, Unsupported, shape_of

if TYPE_CHECKING:
    from styx.stored import StoredType

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")

_Plain = typing.TypeVar("_Plain", bound=Callable)

#: Attribute of a registered function: its `Function` by operator name.
ENTRIES = "__styx__"

#: Every operator of the process, in the order of declaration.
declared: list["Operator"] = []


class Operator:
    """A kind of entity: a name, and the functions that run on its entities.

    With `key_prefix`, keys read `prefix:rest` and all keys of one prefix live
    together, whatever the operator; its value names what the prefix is, e.g.
    `Operator("stock", key_prefix="warehouse")`.

    An operator without registered functions stands for one that another
    component of the app implements.

    `state` is the type of its entities' values, as a type hint: a dataclass, say. `ctx.state.get()` then
    gives such, `put` takes no others, and a version is compared with the entities that there
    are when it is deployed.
    """

    def __init__(
        self,
        name: str,
        *,
        key_prefix: str | None = None,
        doc: str = "",
        state: Any = None,
        location: tuple[str, int] | None = None,
    ) -> None:
        caller = sys._getframe(1)
        self.location = location or (caller.f_code.co_filename, caller.f_lineno)
        for what, value in (("operator name", name), ("key_prefix", key_prefix)):
            if value is None and what == "key_prefix":
                continue
            if not isinstance(value, str) or not _NAME.match(value):
                rule = "start with a letter, then use letters, digits, _ and -, at most 64"
                raise DefinitionError(f"{what} {value!r} is not allowed: {rule}", self.location)
        self.name = name
        self.key_prefix = key_prefix
        self.doc = doc
        self.functions: dict[str, Function] = {}
        #: The type of its values, if it says so.
        self.stored: StoredType | None = None if state is None else _stored_type(self, state)
        declared.append(self)

    @typing.overload
    def register(self, function: _Plain, /) -> _Plain: ...

    @typing.overload
    def register(self, *, read_only: bool = False, name: str | None = None) -> Callable[[_Plain], _Plain]: ...

    def register(self, function: Any = None, /, *, read_only: bool = False, name: str | None = None) -> Any:
        """Decorator that makes a plain function callable on this operator's entities.

        Its first parameter is the `Context`, the rest are the arguments. Type
        hints give the schemas. `read_only=True` declares that it neither
        writes nor calls a function that does: it then runs on the last
        committed state without a place in the log.
        """

        def decorate(function: Callable) -> Callable:
            entry = Function(self, function, read_only=read_only, name=name)
            if entry.name in self.functions:
                raise DefinitionError(f"{entry} is registered twice: give one of them another name", entry.location)
            self.functions[entry.name] = entry
            # The function stays a plain function, for helpers and type checkers; `ctx.call` finds
            # the entry here. There are several if it is registered with several operators.
            vars(function).setdefault(ENTRIES, {})[self.name] = entry
            return function

        return decorate if function is None else decorate(function)

    def migrate(self, migration: _Plain) -> _Plain:
        """Decorator for the function that makes a value of type `state` of one that is not.

        It gets the old value as JSON has it, and returns the new one. It runs when a function
        reads such an entity, and when somebody has all of them migrated; it has to know all
        types that there were.
        """
        code = getattr(migration, "__code__", None)
        location = self.location if code is None else (code.co_filename, code.co_firstlineno)
        if self.stored is None:
            raise DefinitionError(f"{self.name} migrates, and does not say to what: Operator(..., state=...)", location)
        self.stored.migrates_by(migration, location)
        return migration

    def __repr__(self) -> str:
        return f"Operator({self.name!r})"


@dataclass(frozen=True)
class Parameter:
    """One parameter after the context."""

    name: str
    shape: Shape
    default: Any = MISSING

    @property
    def required(self) -> bool:
        """Whether a caller must give it."""
        return self.default is MISSING


class Function:
    """A registered function: the plain Python function, and what the host and the callers need of it."""

    def __init__(
        self, operator: Operator, python: Callable, *, read_only: bool, name: str | None, run: Callable | None = None
    ) -> None:
        """`run` is what runs instead of `python`, whose signature it has."""
        self.location = _location_of(python, operator)
        #: What its `ctx.state` reads and writes; methods have fields instead.
        self.stored = operator.stored if run is None else None
        self.python = run or python
        self.operator_name = operator.name
        self.name = name if name is not None else getattr(python, "__name__", "")
        self.read_only = read_only
        self.doc = inspect.getdoc(python) or ""
        if not _NAME.match(self.name):
            self._refuse("the name is not allowed: start with a letter, then use letters, digits, _ and -, at most 64")
        if not inspect.isfunction(python):
            self._refuse("only plain functions can be registered")
        if inspect.isgeneratorfunction(python) or inspect.isasyncgenfunction(python):
            self._refuse("generators cannot be registered: return a list")
        #: What was registered, as the app's other code knows it.
        self.declared = python
        self.is_async = inspect.iscoroutinefunction(python)
        if self.is_async and run is None:
            self.python = _awaited(python)
        self._signature = _signature(python)
        if not self._signature:
            self._refuse("the first parameter must be the Context")
        for parameter in self._signature:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
                self._refuse(
                    f"parameter '{parameter.name}': *args, **kwargs and keyword-only parameters have no place in an array of arguments"
                )
        #: Names of the parameters after the context: what a caller may use as keywords.
        self.parameter_names = [parameter.name for parameter in self._signature[1:]]
        self.parameters: tuple[Parameter, ...] = ()
        self.returns: Shape = Anything()
        #: The types whose values need no conversion, if that is all parameters' kind; see `accept`.
        self.exact_types: list[type] | None = None
        #: The type of all results, if the hint is a plain one such as `int`; see `check_result`.
        self.exact_result: type | None = None
        #: Turns a result as JSON into what the return hint promises, if it is not that already.
        self.read_result: Converter | None = None
        self._converters: list[Converter | None] = []
        self._required_count = 0
        self._is_prepared = False

    def __str__(self) -> str:
        return f"{self.operator_name}.{self.name}"

    def __repr__(self) -> str:
        return f"<styx function {self}>"

    def prepare(self) -> "Function":
        """Resolves the hints and makes the converters. Raises `DefinitionError`; does nothing the second time."""
        if self._is_prepared:
            return self
        hints = self._hints()
        self.parameters = tuple(
            Parameter(
                parameter.name,
                self._shape(f"parameter '{parameter.name}'", hints.get(parameter.name, Any)),
                MISSING if parameter.default is parameter.empty else parameter.default,
            )
            for parameter in self._signature[1:]
        )
        self.returns = self._shape("the result", hints.get("return", Any))
        self._converters = [converter_of_shape(parameter.shape) for parameter in self.parameters]
        self._required_count = sum(parameter.required for parameter in self.parameters)
        exact = [exact_type(parameter.shape) for parameter in self.parameters]
        self.exact_types = None if None in exact else exact
        self.exact_result = exact_type(self.returns)
        self.read_result = None if keeps_values(self.returns) else converter_of_shape(self.returns, strict=False)
        self._is_prepared = True
        return self

    def untouched(self) -> tuple[tuple[type | None, ...] | None, int]:
        """The types of arguments that need no conversion, None for one that may be anything; None if some always do. And how
        many there must be."""
        if any(
            converter is not None and exact_type(parameter.shape) is None
            for parameter, converter in zip(self.parameters, self._converters)
        ):
            return None, self._required_count
        return tuple(exact_type(parameter.shape) for parameter in self.parameters), self._required_count

    def check_result(self, result: Any) -> None:
        """Refuses a result, not exactly of the hint's type, that clients are not promised. Raises `TypeError`."""
        declared = self.exact_result
        taken = (int, float) if declared is float else declared
        if declared is None or (isinstance(result, taken) and (declared is bool or not isinstance(result, bool))):
            return
        raise TypeError(f"the result is of type {type(result).__name__}, but {declared.__name__} is declared")

    def accept(self, values: Any) -> list:
        """The arguments of an invocation, checked and converted. Raises `Rejected`."""
        if type(values) is not list:
            raise Rejected(f"{self}: the arguments must be a JSON array")
        count = len(values)
        if count > len(self.parameters):
            raise Rejected(f"{self} takes {_count(len(self.parameters), 'argument')}, but {count} were given")
        if count < self._required_count:
            raise Rejected(f"{self} misses the argument '{self.parameters[count].name}'")
        accepted = []
        for parameter, converter, value in zip(self.parameters, self._converters, values):
            if converter is not None:
                try:
                    value = converter(value)
                except Mismatch as mismatch:
                    raise Rejected(f"{self}: {mismatch.describe(parameter.name)}") from None
                except Exception as error:  # a dataclass that checks itself
                    raise Rejected(f"{self}: {parameter.name}: {error}") from None
            accepted.append(value)
        return accepted

    def arrange(self, args: tuple, kwargs: dict[str, Any]) -> tuple | list:
        """A caller's arguments in declared order. Raises TypeError like a Python call would."""
        names = self.parameter_names
        if len(args) > len(names):
            raise TypeError(f"{self} takes {_count(len(names), 'argument')}, but {len(args)} were given")
        if not kwargs:
            if len(args) < len(names) and self._signature[len(args) + 1].default is inspect.Parameter.empty:
                raise TypeError(f"{self} misses the argument '{names[len(args)]}'")
            return args
        unknown = [name for name in kwargs if name not in names]
        if unknown:
            raise TypeError(f"{self} has no parameter '{unknown[0]}'")
        doubled = [name for name in names[: len(args)] if name in kwargs]
        if doubled:
            raise TypeError(f"{self} got the argument '{doubled[0]}' twice")
        last = max(names.index(name) for name in kwargs)
        arranged = list(args)
        for parameter in self._signature[len(args) + 1 :]:
            if parameter.name in kwargs:
                arranged.append(kwargs[parameter.name])
            elif parameter.default is parameter.empty:
                raise TypeError(f"{self} misses the argument '{parameter.name}'")
            elif len(arranged) < last:  # a gap; defaults at the end are left to the callee
                arranged.append(parameter.default)
            else:
                break
        return arranged

    def describe(self) -> dict[str, Any]:
        """The description of the contract, schemas as JSON text."""
        self.prepare()
        return {
            "name": self.name,
            "parameters": [
                {
                    "name": parameter.name,
                    "schema": to_json(schema_of_shape(parameter.shape, parameter.default)).decode(),
                    "required": parameter.required,
                }
                for parameter in self.parameters
            ],
            "returns": to_json(schema_of_shape(self.returns)).decode(),
            "read_only": self.read_only,
            "doc": self.doc,
        }

    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self.declared, include_extras=True)
        except Exception as error:
            # Find out whose hint it is: the error itself does not say.
            for name, hint in _annotations(self.declared).items():
                what = "the result" if name == "return" else f"parameter '{name}'"
                if isinstance(hint, str):
                    try:
                        eval(hint, self.declared.__globals__)
                    except Exception as cause:
                        self._refuse(f"{what} has the type hint {hint!r}, which cannot be resolved: {cause}")
                elif name != self._signature[0].name:
                    self._shape(what, hint)
            self._refuse(f"a type hint cannot be resolved: {error}")

    def _shape(self, what: str, hint: Any) -> Shape:
        try:
            return shape_of(hint)
        except Unsupported as error:
            self._refuse(f"{what}: {error}")

    def _refuse(self, message: str) -> typing.NoReturn:
        raise DefinitionError(f"{self}: {message}", self.location)


def _stored_type(operator: Operator, hint: Any) -> "StoredType":
    from styx.stored import StoredType

    return StoredType(operator, hint)


def _awaited(function: Callable) -> Callable:
    """A coroutine function as a plain one: it awaits calls only, which are over when they are awaited."""

    def run(ctx: Any, *values: Any) -> Any:
        return settle(function(ctx.awaitable(), *values), function)

    return run


def settle(coroutine: Any, function: Callable) -> Any:
    """The result of a coroutine function's coroutine."""
    try:
        coroutine.send(None)
    except StopIteration as returned:
        return returned.value
    coroutine.close()
    raise RuntimeError(f"{function.__name__} awaits what no call settles: only calls of functions can be awaited")


def _signature(python: Callable) -> list[inspect.Parameter]:
    """The parameters, without resolving their annotations: they may name what is defined later."""
    try:
        import annotationlib
    except ImportError:  # before Python 3.14
        return [*inspect.signature(python).parameters.values()]
    return [*inspect.signature(python, annotation_format=annotationlib.Format.FORWARDREF).parameters.values()]


def _annotations(python: Callable) -> dict[str, Any]:
    """Annotations with whatever cannot be resolved left as a string or a ForwardRef."""
    try:
        import annotationlib
    except ImportError:  # before Python 3.14
        return getattr(python, "__annotations__", {})
    return annotationlib.get_annotations(python, format=annotationlib.Format.FORWARDREF)


def _location_of(python: Callable, operator: Operator) -> tuple[str, int] | None:
    code = getattr(python, "__code__", None)
    if code is None:
        return None
    return operator.location if code.co_filename == "<string>" else (code.co_filename, code.co_firstlineno)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
