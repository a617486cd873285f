"""What can go wrong, and how an exception becomes the failure that a caller reads.

An exception that leaves a function aborts its whole transaction. It must never
trap, because a trap throws the instance away, so everything here copes with
exceptions whose own text misbehaves.
"""

import re

#: A function raised; the message is the exception's own text.
ABORTED = "ABORTED"
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

# Where the builder of a component mounts a directory; of no use to a reader.
_MOUNT = re.compile(r"^/\d+/")
# Control characters that would disturb a terminal or a C string; tab and line feed stay.
_CONTROLS = {code: "\ufffd" for code in (*range(0x00, 0x09), *range(0x0B, 0x20), 0x7F)}


class StyxError(Exception):
    """Base of the SDK's own exceptions."""


class CallFailed(StyxError):
    """A nested `ctx.call` failed, and with it the whole transaction.

    `str()` of it is the callee's message and `code` the callee's code. Left
    alone it carries both to the client. A function may catch it to add to the
    message by raising something else, but it cannot save the transaction.
    """

    def __init__(self, message: str, code: str = ABORTED) -> None:
        super().__init__(message)
        self.code = code

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


class Rejected(StyxError):
    """The arguments of an invocation do not fit the function. Never seen by user code."""


def failure_of(error: BaseException) -> tuple[str, str]:
    """The code and the message that an exception of user code gives its caller."""
    if isinstance(error, CallFailed):
        return error.code, safe_text(error.message)
    if isinstance(error, MemoryError):
        return LIMIT_EXCEEDED, "the function ran out of memory: keep less in it or raise the memory limit"
    try:
        text = str(error)
    except Exception:  # An exception whose __str__ raises still has a name.
        text = ""
    return ABORTED, safe_text(text) or type(error).__name__


def safe_text(text: str, bytes_max: int = MESSAGE_BYTES_MAX) -> str:
    """`text` as valid UTF-8 without control characters, cut to `bytes_max` bytes."""
    if not isinstance(text, str):
        text = repr(text)
    # Cut before any other work: the text may be huge.
    clean = text[:bytes_max].translate(_CONTROLS).encode("utf-8", "replace")
    if len(clean) <= bytes_max and len(text) <= bytes_max:
        return clean.decode()
    return clean[: bytes_max - 3].decode("utf-8", "ignore") + "…"


def origin_of(error: BaseException) -> str:
    """`file:line in function` of the frame that raised, for a log line; empty if unknown."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{_MOUNT.sub('', code.co_filename)}:{trace.tb_lineno} in {code.co_name}"
