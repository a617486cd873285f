"""The exports `describe` and `invoke`, for whoever provides the imports."""

from collections.abc import Callable, Iterable
from typing import Any

from styx.codec import from_json, to_json
from styx.context import Context, Host
from styx.determinism import invocation
from styx.errors import (
    BAD_ARGUMENTS,
    GUEST_EXCEPTION,
    UNKNOWN_FUNCTION,
    DefinitionError,
    DefinitionErrors,
    Rejected,
    failure_of,
    origin_of,
    safe_text,
)
from styx.imports import Imports
from styx.operator import Function, Operator
from styx.state import State, TypedState
from styx.stored import Migrating

#: `invoke(function, key, args) -> result`; raises what it was told to for a failure.
Invoke = Callable[[str, str, bytes], bytes]


def functions_of(operators: Iterable[Operator]) -> dict[str, Function]:
    """All functions by `operator.function`, ready to run. Raises `DefinitionError`, or several as `DefinitionErrors`."""
    wrong: list[DefinitionError] = []
    table: dict[str, Function] = {}
    owners: dict[str, Operator] = {}
    for operator in operators:
        if not operator.functions:
            continue
        other = owners.setdefault(operator.name, operator)
        if other is not operator:
            first, line = other.location
            message = f"the operator {operator.name} is already declared at {first}:{line}: import it from there"
            wrong.append(DefinitionError(message, operator.location))
            continue
        for function in operator.functions.values():
            try:
                table[str(function)] = function.prepare()
            except DefinitionError as error:
                wrong.append(error)
        if operator.stored is not None and not wrong:
            try:
                operator.stored.prepare()
            except DefinitionError as error:
                wrong.append(error)
            if operator.stored.migration is not None:
                migrating = Migrating(operator.stored)
                table[str(migrating)] = migrating
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise DefinitionErrors(wrong)
    return table


def describe(operators: Iterable[Operator]) -> list[dict[str, Any]]:
    """The operators that have functions, as the contract describes them."""
    return [
        {
            "name": operator.name,
            "key_prefix": operator.key_prefix,
            "doc": operator.doc,
            "functions": [
                *(function.describe() for function in operator.functions.values()),
                *(operator.stored.describe() if operator.stored is not None else ()),
            ],
        }
        for operator in operators
        if operator.functions
    ]


def ready(table: dict[str, Function], host: Host) -> dict[str, tuple[Function, State]]:
    """Each function, and the state that it sees."""

    def state_of(function: Function) -> State:
        if function.stored is None:
            return host.state
        return TypedState(host.imports, function.stored, may_write=not function.read_only)

    return {name: (function, state_of(function)) for name, function in table.items()}


def make_invoke(
    functions: dict[str, tuple[Function, State]],
    host: Host,
    failure: Callable[[str, str], BaseException],
    *,
    keeps_cause: bool = False,
) -> Invoke:
    """The export `invoke` over functions that are `ready`. `failure(code, message)` makes what it raises.

    With `keeps_cause` the exception that was behind it is its cause, for whoever
    reads a traceback; without, the locals of the failed frames are let go.

    This is the hot path: everything it needs is a local of the closure, and a
    small invocation makes one Context and nothing else.
    """

    def invoke(name: str, key: str, args: bytes) -> bytes:
        try:
            function, state = functions[name]
        except KeyError:
            raise failure(UNKNOWN_FUNCTION, f"there is no function {name} in this component") from None
        try:
            values = [] if args == b"[]" else from_json(args)
            if type(values) is not list or [*map(type, values)] != function.exact_types:
                values = function.accept(values)
        except Rejected as rejected:
            raise failure(BAD_ARGUMENTS, safe_text(str(rejected))) from None
        except MemoryError as error:
            raise failure(*failure_of(error)) from None
        except BaseException as error:
            message = f"{name}: the arguments are not a JSON array: {error}"
            raise failure(BAD_ARGUMENTS, safe_text(message)) from None
        try:
            result = function.python(Context(key, state, host, function), *values)
            if type(result) is not function.exact_result and function.exact_result is not None:
                function.check_result(result)
            return b"null" if result is None else to_json(result)
        except BaseException as error:  # SystemExit too: nothing may leave as a trap
            code, message = failed(host.imports, function, error)
            cause = error if keeps_cause else None
        finally:
            if invocation.is_dirty:
                invocation.settle()
        # Raised here, after the failed frames are gone, so that their locals are not kept alive.
        raise failure(code, message) from cause

    return invoke


def failed(imports: Imports, function: Function, error: BaseException) -> tuple[str, str]:
    """The code and the message of what ended a function. Logs where a refusal came from: its message is for the caller, not for the
    developer. A bug's says it anyway."""
    code, message = failure_of(error, function)
    if code != GUEST_EXCEPTION:
        try:
            imports.log("debug", f"{function} aborted by {type(error).__name__} at {origin_of(error)}")
        except Exception:
            pass  # the failure itself matters more
    return code, message
