"""Errors of a build as one JSON line: from inside the build to `styx.build`."""

import json
import traceback
from typing import Any

from styx.errors import DefinitionError, DefinitionErrors, is_own_code

#: What the line begins with.
MARK = "styx-build-error: "


def nothing_registered() -> DefinitionError:
    """For a project that builds but has no functions."""
    return DefinitionError("no function is registered: decorate one with @operator.register in the entry module")


def line_of(error: BaseException) -> str:
    """The line for an exception that ended the build."""
    if isinstance(error, DefinitionErrors):
        first, *others = (_report_of(each) for each in error.errors)
        return MARK + json.dumps({**first, "others": others})
    return MARK + json.dumps(_report_of(error))


def _report_of(error: BaseException) -> dict[str, Any]:
    report: dict[str, Any] = {"message": _message(error), "file": None, "line": None}
    if isinstance(error, ImportError):
        # Who asked for what: with native code, that is what is wrong.
        frames = traceback.extract_tb(error.__traceback__)
        report["import"] = {"name": error.name, "by": frames[-1].filename if frames else None}
    location = _location(error)
    if location is not None:
        report["file"], report["line"] = location
    return report


def _message(error: BaseException) -> str:
    if isinstance(error, DefinitionError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    if isinstance(error, ModuleNotFoundError):
        return (
            f"there is no module named {error.name!r}: add the package to requirements.txt or the file to the project"
        )
    text = "; ".join(str(error).split("\n"))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _location(error: BaseException) -> tuple[str, int] | None:
    if isinstance(error, DefinitionError) and error.location is not None:
        return error.location
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 1
    # The innermost frame of the app: there the user can do something.
    own = [
        (frame.filename, frame.lineno or 1)
        for frame in traceback.extract_tb(error.__traceback__)
        if is_own_code(frame.filename) and not frame.filename.endswith("/_styx_entry.py")
    ]
    return own[-1] if own else None
