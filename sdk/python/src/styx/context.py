"""`Context`: what a function gets as its first argument.

One is made per invocation, so it holds two references and the key; whatever
costs something is fetched when it is asked for.
"""

import datetime
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from styx.codec import from_json, to_json
from styx.convert import Mismatch
from styx.determinism import Random
from styx.errors import safe_text
from styx.imports import Imports
from styx.operator import ENTRIES, Function, Operator
from styx.state import State


_P = ParamSpec("_P")
_R = TypeVar("_R")
#: A class of entities.
_E = TypeVar("_E")


class Log:
    """`ctx.log`: log lines that appear once, for the attempt that counted.

    Arguments after the message are filled in as in the logging module:
    `ctx.log.info("sold %d of %s", quantity, item)`.
    """

    __slots__ = ("_log",)

    def __init__(self, imports: Imports) -> None:
        self._log = imports.log

    def debug(self, message: Any, *args: Any) -> None:
        """A line of level debug."""
        self._write("debug", message, args)

    def info(self, message: Any, *args: Any) -> None:
        """A line of level info."""
        self._write("info", message, args)

    def warning(self, message: Any, *args: Any) -> None:
        """A line of level warn."""
        self._write("warn", message, args)

    def error(self, message: Any, *args: Any) -> None:
        """A line of level error."""
        self._write("error", message, args)

    def _write(self, level: str, message: Any, args: tuple) -> None:
        text = str(message)
        self._log(level, safe_text(text % args if args else text, _LINE_BYTES_MAX))


_LINE_BYTES_MAX = 16 << 10


class Host:
    """Everything that invocations share: made once per component or test host."""

    __slots__ = ("imports", "state", "log", "random")

    def __init__(self, imports: Imports) -> None:
        self.imports = imports
        self.state = State(imports)
        self.log = Log(imports)
        self.random = Random(draw=imports.random)


class Context:
    """The running invocation: its entity, its transaction and its way to the others.

    `key` is the key of the invoked entity and `state` its operator's state.
    """

    __slots__ = ("key", "state", "_host", "_function")

    key: str
    state: State

    def __init__(self, key: str, state: State, host: Host, function: Function) -> None:
        self.key = key
        self.state = state
        self._host = host
        self._function = function

    @overload
    def call(
        self,
        operator: Operator | str,
        key: str,
        function: "Callable[Concatenate[AsyncContext, _P], Coroutine[Any, Any, _R]]",
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _R: ...

    @overload
    def call(
        self,
        operator: Operator | str,
        key: str,
        function: "Callable[Concatenate[Context, _P], _R]",
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _R: ...

    @overload
    def call(
        self,
        operator: type[_E],
        key: str,
        function: Callable[Concatenate[_E, _P], Coroutine[Any, Any, _R]],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _R: ...

    @overload
    def call(
        self,
        operator: type[_E],
        key: str,
        function: Callable[Concatenate[_E, _P], _R],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _R: ...

    @overload
    def call(self, operator: Operator | type | str, key: str, function: str, /, *args: Any, **kwargs: Any) -> Any: ...

    def call(self, operator: Any, key: str, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a function on another entity, inside this transaction, and returns its result.

        The operator may be a class of entities, and the function a method of it.
        Both may be given by name, as they must be if another language implements
        them, or another app, whose operators are named "app/operator"; arguments
        are positional then. A failure raises `styx.CallFailed` and
        aborts the transaction.
        """
        try:
            name = operator if type(operator) is str else operator.name
            entry = function.__styx__[name]
        except (AttributeError, KeyError):
            entry, name, function_name, values = _target(operator, function, args, kwargs)
        else:
            function_name, values = entry.name, entry.arrange(args, kwargs)
        result = from_json(self._host.imports.call(name, _key(key), function_name, to_json(values)))
        if entry is None or entry.read_result is None:
            return result
        return _converted(entry, result)

    @overload
    def call_async(
        self,
        operator: Operator | str,
        key: str,
        function: "Callable[Concatenate[AsyncContext, _P], Any]",
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> None: ...

    @overload
    def call_async(
        self,
        operator: Operator | str,
        key: str,
        function: "Callable[Concatenate[Context, _P], Any]",
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> None: ...

    @overload
    def call_async(
        self,
        operator: type[_E],
        key: str,
        function: Callable[Concatenate[_E, _P], Any],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> None: ...

    @overload
    def call_async(
        self, operator: Operator | type | str, key: str, function: str, /, *args: Any, **kwargs: Any
    ) -> None: ...

    def call_async(self, operator: Any, key: str, function: Any, /, *args: Any, **kwargs: Any) -> None:
        """Has a function run on another entity after this one has returned, inside this transaction.

        Calls run in the order in which they were issued, depth first. The
        result is dropped; a failure aborts the transaction.
        """
        _, name, function_name, values = _target(operator, function, args, kwargs)
        self._host.imports.call_async(name, _key(key), function_name, to_json(values))

    @property
    def operator(self) -> str:
        """Name of the invoked entity's operator."""
        return self._function.operator_name

    @property
    def function(self) -> str:
        """Name of the running function."""
        return self._function.name

    @property
    def app(self) -> str:
        """Name of the app."""
        return self._host.imports.app()

    @property
    def tid(self) -> int:
        """Transaction id: the transaction's rank in the sequence."""
        return self._host.imports.tid()

    @property
    def request_id(self) -> str:
        """Id of the request, as the client knows it."""
        return self._host.imports.request_id()

    @property
    def time(self) -> float:
        """When the transaction was sequenced, in seconds since 1970, as `time.time()` has it."""
        return self._host.imports.time() / 1_000_000

    @property
    def time_us(self) -> int:
        """The same in whole microseconds."""
        return self._host.imports.time()

    @property
    def now(self) -> datetime.datetime:
        """The same as an aware `datetime` in UTC."""
        return _EPOCH + datetime.timedelta(microseconds=self._host.imports.time())

    @property
    def random(self) -> Random:
        """This invocation's random numbers, with all methods of `random.Random`."""
        return self._host.random

    @property
    def log(self) -> Log:
        """Log lines of this invocation."""
        return self._host.log

    def awaitable(self) -> "AsyncContext":
        """The same for an `async def`."""
        return AsyncContext(self.key, self.state, self._host, self._function)

    def __repr__(self) -> str:
        return f"<Context of {self._function} on {self.key!r}>"


class AsyncContext(Context):
    """The context of an `async def`: the same, but calls are awaited.

    They run one after the other, each when it is awaited.
    """

    __slots__ = ()

    # Another signature than a plain context's: an `async def` never gets that one.
    @overload  # type: ignore[override]
    async def call(
        self,
        operator: Operator | str,
        key: str,
        function: "Callable[Concatenate[AsyncContext, _P], Coroutine[Any, Any, _R]]",
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _R: ...

    @overload
    async def call(
        self,
        operator: Operator | str,
        key: str,
        function: Callable[Concatenate[Context, _P], _R],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _R: ...

    @overload
    async def call(
        self,
        operator: type[_E],
        key: str,
        function: Callable[Concatenate[_E, _P], Coroutine[Any, Any, _R]],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _R: ...

    @overload
    async def call(
        self,
        operator: type[_E],
        key: str,
        function: Callable[Concatenate[_E, _P], _R],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _R: ...

    @overload
    async def call(
        self, operator: Operator | type | str, key: str, function: str, /, *args: Any, **kwargs: Any
    ) -> Any: ...

    async def call(self, operator: Operator | str, key: str, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a function on another entity, inside this transaction, and returns its result."""
        return Context.call(self, operator, key, function, *args, **kwargs)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def _key(key: Any) -> str:
    if type(key) is str:
        return key
    if isinstance(key, str):
        return str.__str__(key)
    raise TypeError(f"a key must be a string, not {type(key).__name__}: use str(...)")


def _target(
    operator: Any, function: Any, args: tuple, kwargs: dict[str, Any]
) -> tuple[Function | None, str, str, tuple | list]:
    """The entry (if it is known here), the names and the ordered arguments of a call."""
    operator = getattr(operator, "_styx_operator", operator)  # an entity class
    if isinstance(operator, Operator):
        name, known = operator.name, operator.functions
    elif isinstance(operator, str):
        name, known = operator, {}
    else:
        raise TypeError(
            f"the operator must be an Operator, a class of entities or a name, not {type(operator).__name__}"
        )
    if isinstance(function, str):
        entry = known.get(function)
        if entry is None:
            if kwargs:
                raise TypeError(f"{name}.{function} is called by name: its arguments must be positional")
            return None, name, function, args
    else:
        entry = getattr(function, ENTRIES, {}).get(name)
        if entry is None:
            shown = getattr(function, "__name__", repr(function))
            raise TypeError(f"{shown} is not registered with {name}: pass a function of it or a name")
    return entry, name, entry.name, entry.arrange(args, kwargs)


def _converted(entry: Function, result: Any) -> Any:
    try:
        return entry.read_result(result)
    except Mismatch as mismatch:
        raise TypeError(f"the result of {entry} does not fit its type hint: {mismatch.describe('it')}") from None
