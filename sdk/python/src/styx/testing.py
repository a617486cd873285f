"""An in-memory host: run and test functions with plain Python, without a server or WebAssembly.

    from styx.testing import Host
    import travel

    def test_a_full_hotel_cancels_the_trip():
        host = Host(travel)
        host.call("hotel", "ritz", "create", 0)
        with pytest.raises(CallFailed, match="full"):
            host.call(travel.reservation, "r1", travel.make_reservation, "f1", "ritz", "u1")
        assert host.get("reservation", "r1") is None

Every `Host.call` is a transaction as a server runs it: all of its writes or
none, synchronous calls nested, asynchronous calls after their caller in the
order of issue and depth first. Arguments, results and values pass through JSON.
Operators of other languages are played by operators that the test declares, and so are those of other apps, which have
names such as `billing/account` here too:

    host = Host(shop, apps={"billing": [account]})
    host.put("billing/account", "ann", 100)

While a transaction runs, `random`, `time.time`, `os.urandom`, `secrets` and
`uuid.uuid4` depend on it alone. `datetime.now()` reads the real clock here,
other than in a component: prefer `ctx.now`.
"""

import os
import random
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar, cast

from styx import context as contexts
from styx import determinism, errors, reference, runtime
from styx.codec import from_json, to_json
from styx.context import _target
from styx.entities import Entity
from styx.errors import Abort, CallFailed
from styx.imports import Imports
from styx.operator import Operator
from styx.stored import MIGRATE

__all__ = ["Abort", "CallFailed", "Host", "LogLine"]

_Source = types.ModuleType | Operator | type[Entity]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_START_US = 1_700_000_000_000_000

# pytest leaves frames of such modules out: what it shows leads from the test to the app.
__tracebackhide__ = True
for _module in (contexts, runtime, reference):
    setattr(_module, "__tracebackhide__", True)


@dataclass(frozen=True)
class LogLine:
    """A line that a function logged, or that a host adds for a bug."""

    level: str
    operator: str
    key: str
    message: str


@dataclass
class _Call:
    """One function call: what runs, and what it issued to run afterwards."""

    operator: str
    key: str
    function: str
    args: bytes
    is_read_only: bool
    issued: list["_Call"] = field(default_factory=list)
    draw: Callable[[], int] = field(default=lambda: 0)


@dataclass
class _Transaction:
    """One request: its writes, and why it will have no effect, once that is known."""

    tid: int
    time_us: int
    #: Value by (operator, key), None for a deleted one, on top of the committed state.
    writes: dict[tuple[str, str], bytes | None] = field(default_factory=dict)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    logs: list[LogLine] = field(default_factory=list)
    doom: CallFailed | None = None


class Host:
    """Runs transactions on operators, given as modules, as `Operator` objects or as classes of entities.

    `calls` are the (operator, key, function) of the last transaction in the
    order in which they ran, and `logs` the log lines of all of them, also of
    those that aborted.
    """

    def __init__(
        self, *sources: _Source, app: str = "test", apps: Mapping[str, Sequence[_Source]] | None = None, seed: int = 0
    ) -> None:
        self.operators = _operators(sources)
        self.calls: list[tuple[str, str, str]] = []
        self.logs: list[LogLine] = []
        #: When the next transaction will have been sequenced; every transaction moves it on.
        self.time_us = _START_US
        self._app = app
        self._seed = seed
        self._functions = runtime.functions_of(self.operators)
        for other, others in (apps or {}).items():
            functions = runtime.functions_of(_operators(others))
            self._functions.update((f"{other}/{name}", function) for name, function in functions.items())
        self._committed: dict[tuple[str, str], bytes] = {}
        self._tid = 0
        self._transaction: _Transaction | None = None
        self._stack: list[_Call] = []
        self._bridge = _Bridge(self)
        host = contexts.Host(self._bridge)
        self._invoke = runtime.make_invoke(
            runtime.ready(self._functions, host), host, lambda code, text: CallFailed(text, code), keeps_cause=True
        )

    # What a test does.

    def call(self, operator: Any, key: str, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a transaction and returns its result as JSON has it.

        Raises `CallFailed` if it aborts; its cause is the exception that a function raised.
        """
        if self._transaction is not None:
            raise RuntimeError("a transaction is running: functions call each other with ctx.call")
        if isinstance(operator, str):
            operator = next((known for known in self.operators if known.name == operator), operator)
        _, name, function_name, values = _target(operator, function, args, kwargs)
        self._tid += 1
        transaction = self._transaction = _Transaction(self._tid, self.time_us)
        self.time_us += 1_000
        try:
            root = self._resolve(name, key, function_name, to_json(values), is_read_only=False)
            with _patched_process(self, transaction), _referring(self._bridge):
                result = self._run(root)
        finally:
            self._transaction = None
            self._stack.clear()
            self.calls = transaction.calls
            self.logs += transaction.logs
        for entity, value in transaction.writes.items():
            if value is None:
                self._committed.pop(entity, None)
            else:
                self._committed[entity] = value
        return from_json(result)

    def at(self, cls: type[_T], key: str) -> _T:
        """An entity of a class: each call of a method is a transaction, and its result what the hint says."""
        return cast(_T, _remote(self, cls, key))

    def create(self, cls: Callable[_P, _T], key: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Creates an entity of a class, in a transaction, and returns it as `at` does."""
        self.call(cls, key, "create", *args, **kwargs)
        return self.at(cls, key)  # type: ignore[arg-type]

    def get(self, operator: Operator | type[Entity] | str, key: str) -> Any:
        """The committed value of an entity; None if there is none."""
        data = self._committed.get((_name(operator), key))
        return None if data is None else from_json(data)

    def put(self, operator: Operator | type[Entity] | str, key: str, value: Any) -> None:
        """Sets the committed value of an entity, for a fixture."""
        self._committed[_name(operator), key] = to_json(value)

    def entries(self, operator: Operator | type[Entity] | str) -> dict[str, Any]:
        """All committed values of an operator by key, in key order."""
        name = _name(operator)
        found = sorted((key.encode(), data) for (owner, key), data in self._committed.items() if owner == name)
        return {key.decode(): from_json(data) for key, data in found}

    def describe(self) -> list[dict[str, Any]]:
        """What a component of these operators tells a server."""
        return runtime.describe(self.operators)

    # How a transaction runs.

    def _qualified(self, operator: str) -> str:
        """An operator as it is known here: with its app, if that is another one."""
        app, _, name = operator.rpartition("/")
        app = app or (self._bridge.app() if self._stack else self._app)
        return name if app == self._app else f"{app}/{name}"

    def _resolve(self, operator: str, key: str, function: str, args: bytes, *, is_read_only: bool) -> _Call:
        operator = self._qualified(operator)
        entry = self._functions.get(f"{operator}.{function}")
        if entry is None or self._stack and function == MIGRATE:
            if any(known.startswith(f"{operator}.") for known in self._functions):
                code, message = errors.UNKNOWN_FUNCTION, f'operator "{operator}" has no function "{function}"'
            else:
                app = operator.rpartition("/")[0]
                where = f'Host(..., apps={{"{app}": [...]}})' if app else "Host(...)"
                code, message = "UNKNOWN_OPERATOR", f'there is no operator "{operator}": give it to {where}'
            if self._stack:
                code, message = errors.GUEST_EXCEPTION, f"{self._running()} called nobody: {message}"
                self._note(f"{code}: {message}")
            raise self._doom(code, message)
        if is_read_only and not entry.read_only:
            raise self._doom(
                errors.READ_ONLY, f"{self._running()} is declared read-only and called {entry}, which is not"
            )
        return _Call(operator, key, function, args, is_read_only or entry.read_only)

    def _run(self, call: _Call) -> bytes:
        """A call and, after it, what it issued: in order, depth first."""
        result = self._run_one(call)
        for issued in call.issued:
            self._run(issued)
        return result

    def _run_one(self, call: _Call) -> bytes:
        transaction = self._transaction
        if transaction.doom is not None:
            raise transaction.doom
        ordinal = len(transaction.calls)
        transaction.calls.append((call.operator, call.key, call.function))
        call.draw = determinism.stream(determinism.stream(self._seed ^ transaction.tid << 20 ^ ordinal)())
        self._stack.append(call)
        outer, reference.running.caller = reference.running.caller, None
        try:
            with _own_generators(call.draw):
                result = self._invoke(f"{call.operator}.{call.function}", call.key, call.args)
        except CallFailed as failure:
            failure = self._own_fault(failure)
            self._reword(failure)
            raise transaction.doom from transaction.doom.__cause__
        finally:
            reference.running.caller = outer
            self._stack.pop()
        if transaction.doom is not None:
            # A function that catches a failure cannot save the transaction.
            raise transaction.doom
        return result

    def _doom(self, code: str, message: str) -> CallFailed:
        failure = CallFailed(message, code)
        if self._transaction.doom is None:
            self._transaction.doom = failure
        return failure

    def _own_fault(self, failure: CallFailed) -> CallFailed:
        """How a server tells it: what a function passes to another is never the client's fault, and bugs are logged."""
        cause = failure.__cause__
        call, running = self._stack[-1], self._running()
        is_passed_on = isinstance(cause, CallFailed)
        if failure.code == errors.BAD_ARGUMENTS and len(self._stack) > 1 and not is_passed_on:
            message = f"{running} was called with arguments that it does not take: {failure.message}"
            failure = CallFailed(message, errors.GUEST_EXCEPTION)
        elif failure.code == errors.GUEST_EXCEPTION and not is_passed_on:
            failure = CallFailed(f'{running} on "{call.key}": {failure.message}', errors.GUEST_EXCEPTION)
        failure.__cause__ = cause
        if failure.code == errors.GUEST_EXCEPTION:
            self._note(f"{failure.code}: {failure.message}")
        return failure

    def _note(self, line: str) -> None:
        if self._transaction.doom is None:
            call = self._stack[-1]
            self._transaction.logs.append(LogLine("warn", call.operator, call.key, line))

    def _reword(self, failure: CallFailed) -> None:
        doom = self._transaction.doom
        if doom is None or doom.code == failure.code == errors.ABORTED:
            failure.app_code = failure.app_code or (doom and doom.app_code)
            self._transaction.doom = failure

    def _running(self) -> str:
        return f"{self._stack[-1].operator}.{self._stack[-1].function}"


class _Bridge:
    """`styx.imports.Imports` for the call on top of the host's stack."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def _top(self) -> _Call:
        if not self._host._stack:
            raise RuntimeError("the context was used after its function had returned")
        return self._host._stack[-1]

    def get_own(self) -> bytes | None:
        return self.get(self._top.key)

    def put_own(self, value: bytes) -> None:
        self._write(self._top.key, value)

    def delete_own(self) -> None:
        self._write(self._top.key, None)

    def get(self, key: str) -> bytes | None:
        entity = (self._top.operator, key)
        writes = self._host._transaction.writes
        return writes[entity] if entity in writes else self._host._committed.get(entity)

    def put(self, key: str, value: bytes) -> None:
        self._write(key, value)

    def delete(self, key: str) -> None:
        self._write(key, None)

    def _write(self, key: str, value: bytes | None) -> None:
        call = self._top
        if call.is_read_only:
            message = f'{call.operator}.{call.function} is declared read-only and wrote "{key}"'
            raise self._host._doom(errors.READ_ONLY, message)
        self._host._transaction.writes[call.operator, key] = value

    def scan(
        self, prefix: str, lower: tuple[str, bool] | None, upper: tuple[str, bool] | None, limit: int, reverse: bool
    ) -> list[tuple[str, bytes]]:
        operator = self._top.operator
        merged = {**self._host._committed, **self._host._transaction.writes}
        found = [
            (key.encode(), key, data)
            for (owner, key), data in merged.items()
            if owner == operator and data is not None and key.startswith(prefix) and _within(key, lower, upper)
        ]
        found.sort(reverse=reverse)
        return [(key, data) for _, key, data in (found[:limit] if limit else found)]

    def call(self, operator: str, key: str, function: str, args: bytes) -> bytes:
        host = self._host
        return host._run(host._resolve(operator, key, function, args, is_read_only=self._top.is_read_only))

    def call_async(self, operator: str, key: str, function: str, args: bytes) -> None:
        call = self._top
        call.issued.append(self._host._resolve(operator, key, function, args, is_read_only=call.is_read_only))

    def app(self) -> str:
        return self._top.operator.rpartition("/")[0] or self._host._app

    def tid(self) -> int:
        return self._host._transaction.tid

    def request_id(self) -> str:
        return f"test-{self._host._transaction.tid}"

    def time(self) -> int:
        return self._host._transaction.time_us

    def random(self) -> int:
        return self._top.draw()

    def log(self, level: str, message: str) -> None:
        call = self._top
        self._host._transaction.logs.append(LogLine(level, call.operator, call.key, message))


def _remote(host: Host, cls: Any, key: str) -> Any:
    """A reference whose calls are transactions."""
    methods = {name: _transaction(host, cls, name) for name in vars(cls._styx_reference) if not name.startswith("_")}
    return type(cls.__name__, (cls._styx_reference,), {"__slots__": (), **methods})(key)


def _transaction(host: Host, cls: Any, name: str) -> Callable:
    function = getattr(cls, name).__styx__[cls._styx_operator.name]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = host.call(cls, self.key, function.name, *args, **kwargs)
        return result if function.read_result is None else function.read_result(result)

    async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *args, **kwargs)

    return awaited if function.is_async else method


def _operators(sources: Sequence[_Source]) -> list[Operator]:
    """The operators of some sources that have functions, each once."""
    operators: dict[int, Operator] = {}
    for source in sources:
        found = vars(source).values() if isinstance(source, types.ModuleType) else [source]
        known = (getattr(value, "_styx_operator", value) if isinstance(value, type) else value for value in found)
        operators.update((id(value), value) for value in known if isinstance(value, Operator))
    return [operator for operator in operators.values() if operator.functions]


def _name(operator: Operator | type[Entity] | str) -> str:
    operator = getattr(operator, "_styx_operator", operator)
    return operator if isinstance(operator, str) else operator.name


def _within(key: str, lower: tuple[str, bool] | None, upper: tuple[str, bool] | None) -> bool:
    data = key.encode()
    if lower is not None:
        bound, is_included = lower[0].encode(), lower[1]
        if data < bound or (data == bound and not is_included):
            return False
    if upper is not None:
        bound, is_included = upper[0].encode(), upper[1]
        if data > bound or (data == bound and not is_included):
            return False
    return True


#: The generator behind `from random import random`, whatever is installed meanwhile.
_HIDDEN = random._inst
_system_urandom = os.urandom


@contextmanager
def _own_generators(draw: Callable[[], int]) -> Iterator[None]:
    """Gives one invocation its random numbers, and nothing that it does to them to the next."""
    hidden_state = _HIDDEN.getstate()
    undo = determinism.install(draw)
    try:
        with determinism.invocation.nested():
            _HIDDEN.seed(draw())
            yield
    finally:
        undo()
        _HIDDEN.setstate(hidden_state)


@contextmanager
def _referring(imports: Imports) -> Iterator[None]:
    """Lets references call by these imports."""
    outer, reference.running.imports = reference.running.imports, imports
    try:
        yield
    finally:
        reference.running.imports = outer


@contextmanager
def _patched_process(host: Host, transaction: _Transaction) -> Iterator[None]:
    """Lets clocks and system randomness depend on the running transaction, as a component's do."""

    def now_ns() -> int:
        return transaction.time_us * 1_000

    def urandom(size: int) -> bytes:
        if not host._stack:
            return _system_urandom(size)
        draw = host._stack[-1].draw
        return b"".join(draw().to_bytes(8, "little") for _ in range((size + 7) // 8))[:size]

    replacements = [
        (time, "time", lambda: now_ns() / 1e9),
        (time, "time_ns", now_ns),
        (os, "urandom", urandom),
        (random, "_urandom", urandom),
    ]
    with ExitStack() as stack:
        for module, name, replacement in replacements:
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, replacement)
        yield
