"""What can go wrong, and how an exception becomes the failure that a caller reads.

An exception that leaves a function aborts its whole transaction. It must never
trap, because a trap throws the instance away, so everything here copes with
exceptions whose own text misbehaves.

What a `raise` in the app's own code raises is a *refusal*: the app says no, and
the caller reads why. Everything else is a *bug*: what Python, its library, a
package or the SDK raises, and failed assertions. Its caller reads what it is
and where.
"""

import os
import re
import sys
from opcode import opmap
from types import TracebackType
from typing import Any

#: A function refused; the message is the exception's own text.
ABORTED = "ABORTED"
#: A function ended by an exception that it did not raise: a bug of the app.
GUEST_EXCEPTION = "GUEST_EXCEPTION"
#: A function was called with arguments that it cannot take.
BAD_ARGUMENTS = "BAD_ARGUMENTS"
#: A function that the component does not have was called.
UNKNOWN_FUNCTION = "UNKNOWN_FUNCTION"
#: The instance ran out of memory.
LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
#: A function registered with `read_only=True` wrote, or called one that may. Found by the host.
READ_ONLY = "READ_ONLY"

#: The longest message of a failure, in bytes of UTF-8.
MESSAGE_BYTES_MAX = 4096

# What an app may call an error of its own.
_APP_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")
# Where the builder of a component mounts a directory; of no use to a reader.
_MOUNT = re.compile(r"^/\d+/")
# Control characters that would disturb a terminal or a C string; tab and line feed stay.
_CONTROLS = {code: "\ufffd" for code in (*range(0x00, 0x09), *range(0x0B, 0x20), 0x7F)}


class StyxError(Exception):
    """Base of the SDK's own exceptions."""


class Abort(Exception):
    """Base of an app's own errors: raised, it aborts the transaction, wherever it is raised from.

    Its `code` reaches the client as `app_code`, so that nobody has to parse the
    message. Give a class one, or an instance::

        class InsufficientFunds(styx.Abort):
            code = "INSUFFICIENT_FUNDS"

        raise InsufficientFunds(f"{ctx.key} has only {balance}")
        raise styx.Abort("closed on Sundays", code="CLOSED")
    """

    #: Capital letters, digits and `_`; None for none.
    code: str | None = None

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if cls.code is not None and not _is_app_code(cls.code):
            frame = sys._getframe(1)
            location = (frame.f_code.co_filename, frame.f_lineno)
            raise DefinitionError(f"{cls.__name__}.code is {cls.code!r}: {_APP_CODE_RULE}", location)

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            if not _is_app_code(code):
                raise TypeError(f"the code {code!r} is not allowed: {_APP_CODE_RULE}")
            self.code = code


_APP_CODE_RULE = "begin with a capital letter, then use capital letters, digits and _, at most 64"


def _is_app_code(code: object) -> bool:
    return isinstance(code, str) and _APP_CODE.match(code) is not None


class CallFailed(StyxError):
    """A nested `ctx.call` failed, and with it the whole transaction.

    `str()` of it is the callee's message, `code` the callee's code, and
    `app_code` the app's own, if there is one. Left alone it carries all of them
    to the client. A function may catch it to add to the message by raising
    something else, but it cannot save the transaction.
    """

    def __init__(self, message: str, code: str = ABORTED) -> None:
        super().__init__(message)
        self.code, _, app_code = code.partition(":")
        self.app_code = app_code or None

    @property
    def full_code(self) -> str:
        """`code`, with `app_code` after a colon if there is one: as the contract has it."""
        return f"{self.code}:{self.app_code}" if self.app_code else self.code

    @property
    def message(self) -> str:
        """The callee's message."""
        return self.args[0]


class DefinitionError(StyxError):
    """An operator or a function is declared wrongly. Raised while the project is built.

    `location` is `(file, line)` of the culprit where it is known.
    """

    def __init__(self, message: str, location: tuple[str, int] | None = None) -> None:
        super().__init__(message)
        self.location = location


class DefinitionErrors(StyxError):
    """Several of them, found together."""

    def __init__(self, errors: list[DefinitionError]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors


class Rejected(StyxError):
    """The arguments of an invocation do not fit the function. Never seen by user code."""


def failure_of(error: BaseException, function: Any = None) -> tuple[str, str]:
    """The code and the message that an exception of user code gives its caller, in a function if it is one's."""
    if isinstance(error, CallFailed):
        return error.full_code, safe_text(error.message)
    if isinstance(error, MemoryError):
        return LIMIT_EXCEEDED, "the function ran out of memory: keep less in it or raise the memory limit"
    try:
        text = str(error)
    except Exception:  # An exception whose __str__ raises still has a name.
        text = ""
    name = type(error).__name__
    if isinstance(error, ModuleNotFoundError) and sys.platform == "wasi":
        text += ": a component has what was imported when it was built, so import it at the top of a module"
    if isinstance(error, Abort):
        code = getattr(error, "code", None)
        return f"{ABORTED}:{code}" if _is_app_code(code) else ABORTED, safe_text(text) or name
    if _is_refusal(error):
        return ABORTED, safe_text(text) or name
    origin = origin_of(error, function)
    described = f"{name}: {safe_text(text, _BUG_TEXT_BYTES_MAX)}" if text else name
    return GUEST_EXCEPTION, safe_text(f"{described} at {origin}" if origin else described)


#: So that the place still fits behind it.
_BUG_TEXT_BYTES_MAX = 3 << 10


def _is_refusal(error: BaseException) -> bool:
    """Whether a `raise` in the app's own code raised it."""
    if not isinstance(error, Exception) or isinstance(error, (AssertionError, NotImplementedError)):
        return False
    trace = _innermost(error.__traceback__)
    if trace is None or not is_own_code(trace.tb_frame.f_code.co_filename):
        return False
    instructions = trace.tb_frame.f_code.co_code
    return 0 <= trace.tb_lasti < len(instructions) and instructions[trace.tb_lasti] == opmap["RAISE_VARARGS"]


# Where the standard library, the SDK and packages are: here, and inside a component. The builder mounts
# the packages of requirements.txt last.
_LIBRARIES = ("<", "/python/", "/bundled/", "/3/", os.path.dirname(os.__file__) + "/", os.path.dirname(__file__) + "/")


def is_own_code(file: str) -> bool:
    """Whether a file is the app's, and not of the standard library, the SDK or a package."""
    return not file.startswith(_LIBRARIES) and "/site-packages/" not in file and "/dist-packages/" not in file


def _innermost(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def safe_text(text: str, bytes_max: int = MESSAGE_BYTES_MAX) -> str:
    """`text` as valid UTF-8 without control characters, cut to `bytes_max` bytes."""
    if not isinstance(text, str):
        text = repr(text)
    # Cut before any other work: the text may be huge.
    clean = text[:bytes_max].translate(_CONTROLS).encode("utf-8", "replace")
    if len(clean) <= bytes_max and len(text) <= bytes_max:
        return clean.decode()
    return clean[: bytes_max - 3].decode("utf-8", "ignore") + "…"


def origin_of(error: BaseException, function: Any = None) -> str:
    """`file:line in function` of the app's innermost frame, or of what it is in, or of the innermost of all; empty if unknown."""
    trace, own = error.__traceback__, None
    while trace is not None:
        if is_own_code(trace.tb_frame.f_code.co_filename):
            own = trace
        trace = trace.tb_next
    if own is None and function is not None:
        # It has returned what cannot be answered.
        file, line = function.location
        return f"{_MOUNT.sub('', file)}:{line} in {function.name}"
    trace = own or _innermost(error.__traceback__)
    if trace is None:
        return ""
    code = trace.tb_frame.f_code
    return f"{_MOUNT.sub('', code.co_filename)}:{trace.tb_lineno} in {code.co_name}"
