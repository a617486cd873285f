"""What a component exports, made of an app: for whoever imports the app, `_component` at once or `_interpreter` later.

Everything in here happens while the component is built. `_styx_entry` is generated, and imports the user's entry
module. An error is reported as one JSON line that `styx.build` understands.
"""

import functools
import gc
import sys

sys.dont_write_bytecode = True  # the project's directory stays as it is

from componentize_py_types import Err
from wit_world.imports import calls, context, logging, state, types

from styx import __version__, _native, _report, codec, console, context as contexts, determinism, reference, runtime
from styx.errors import CallFailed
from styx.operator import ENTRIES, declared
from styx.state import State


class _Imports:
    """The component's imports as `styx.imports.Imports`."""

    get_own = staticmethod(_native.get_own)
    put_own = staticmethod(_native.put_own)
    delete_own = staticmethod(state.delete_own)
    get = staticmethod(_native.get)
    put = staticmethod(_native.put)
    delete = staticmethod(state.delete)
    call = staticmethod(_native.call)
    call_async = staticmethod(calls.call_async)
    app = staticmethod(context.app)
    tid = staticmethod(context.tid)
    request_id = staticmethod(context.request_id)
    time = staticmethod(context.time)
    random = staticmethod(context.random)

    @staticmethod
    def scan(prefix, lower, upper, limit, reverse):
        key_range = state.KeyRange(prefix, _bound(lower), _bound(upper))
        return state.scan(key_range, limit, reverse)

    @staticmethod
    def log(level, message):
        logging.log(_LEVELS[level], message)


_LEVELS = {level.name.lower(): level for level in logging.Level}


def _bound(bound):
    if bound is None:
        return state.Bound_Unbounded()
    key, is_included = bound
    return state.Bound_Included(key) if is_included else state.Bound_Excluded(key)


def failure(code, message):
    """What `invoke` raises to abort."""
    return Err(types.Failure(code, message))


# Before user code, which may say `from random import random` or hold on to sys.stdout.
original_stderr = sys.stderr
console.install(_Imports.log)
determinism.install(context.random)
determinism.install_uuid()


def exports_of_app():
    """Imports the app, whose functions `invoke` runs from then on. Returns `describe`; raises what the app does, and what is wrong with it."""
    import _styx_entry  # noqa: F401

    functions = runtime.functions_of(declared)
    operators = runtime.describe(declared)
    reference.running.imports = _Imports
    if not operators:
        raise _report.nothing_registered()
    _install(functions)
    return lambda: _description(operators)


def _install(functions):
    """Decides once what of the app is done in C (`sdk/python/native`): invocations and calls whose arguments need no conversion."""
    host = contexts.Host(_Imports)
    ready = runtime.ready(functions, host)
    run = {
        name: (function, function.python, state, *function.untouched(), function.exact_result)
        for name, (function, state) in ready.items()
    }
    called: dict = {}
    for function in functions.values():
        python = getattr(function, "declared", None)
        for operator, entry in getattr(python, ENTRIES, {}).items():
            count, converts = len(entry.parameter_names), entry.read_result is not None
            called.setdefault(python, {})[operator] = (entry, operator, entry.name, count, converts)
    _native.install(
        contexts.Context("", host.state, host, next(iter(functions.values()), None)),
        run,
        called,
        contexts.Context,
        host,
        runtime.make_invoke(ready, host, failure),
        functools.partial(runtime.failed, _Imports),
        determinism.invocation,
        codec._scan,
        codec.from_json,
        codec._encode,
        codec._open_containers,
        CallFailed,
        contexts._converted,
        State.get,
        State.put,
        contexts.Context.call,
    )
    _native.methods(State, contexts.Context)


def _description(operators):
    return types.Description(
        sdk=f"styx-python {__version__}",
        operators=[
            types.OperatorDescription(
                name=operator["name"],
                key_prefix=operator["key_prefix"],
                doc=operator["doc"],
                functions=[
                    types.FunctionDescription(
                        name=function["name"],
                        parameters=[types.Parameter(**parameter) for parameter in function["parameters"]],
                        returns=function["returns"],
                        read_only=function["read_only"],
                        doc=function["doc"],
                    )
                    for function in operator["functions"]
                ],
            )
            for operator in operators
        ],
    )


def freeze():
    """What exists now lives as long as the component: the collector need not look at it again, and does not touch (and thereby copy) its
    memory in every instance."""
    gc.collect()
    gc.freeze()
