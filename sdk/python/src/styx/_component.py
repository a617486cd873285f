"""The module that componentize-py makes a component of.

Everything in here happens once, while the component is built: user code is
imported, hints are resolved, and the finished interpreter is what the component
starts from. `_styx_entry` is generated next to it and imports the user's entry
module. An error is reported as one JSON line that `styx.build` understands.
"""

import gc
import sys

sys.dont_write_bytecode = True  # the project's directory stays as it is

import wit_world
from componentize_py_types import Err
from wit_world.imports import calls, context, logging, state, types

from styx import __version__, _report, console, determinism, reference, runtime
from styx.errors import CallFailed
from styx.operator import declared


class _Imports:
    """The component's imports as `styx.imports.Imports`."""

    get_own = staticmethod(state.get_own)
    put_own = staticmethod(state.put_own)
    delete_own = staticmethod(state.delete_own)
    get = staticmethod(state.get)
    put = staticmethod(state.put)
    delete = staticmethod(state.delete)
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
    def call(operator, key, function, args):
        try:
            return calls.call(operator, key, function, args)
        except Err as error:
            failure = error.value
        raise CallFailed(failure.message, failure.code)

    @staticmethod
    def log(level, message):
        logging.log(_LEVELS[level], message)


_LEVELS = {level.name.lower(): level for level in logging.Level}


def _bound(bound):
    if bound is None:
        return state.Bound_Unbounded()
    key, is_included = bound
    return state.Bound_Included(key) if is_included else state.Bound_Excluded(key)


def _failure(code, message):
    return Err(types.Failure(code, message))


# Before user code, which may say `from random import random` or hold on to sys.stdout.
_original_stderr = sys.stderr
console.install(_Imports.log)
determinism.install(context.random)
determinism.install_uuid()

try:
    import _styx_entry  # noqa: F401

    _functions = runtime.functions_of(declared)
    _operators = runtime.describe(declared)
    reference.running.imports = _Imports
    if not _operators:
        raise _report.nothing_registered()
except BaseException as error:
    print(_report.line_of(error), file=_original_stderr, flush=True)
    raise


class WitWorld(wit_world.WitWorld):
    """The exports of the world `function`."""

    invoke = staticmethod(runtime.make_invoke(_functions, _Imports, _failure))

    def describe(self):
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
                for operator in _operators
            ],
        )


# What exists now lives as long as the component: the collector need not look at it again,
# and does not touch (and thereby copy) its memory in every instance.
gc.collect()
gc.freeze()
determinism.invocation.is_running = True
