"""`python -m styx._check ENTRY`: what is wrong with a project, before anything is packed.

Imports the app as a component would, in this very interpreter, which takes a
moment where packing takes many seconds. Only what is wrong in any interpreter
counts: an app may need one inside a component.
"""

import importlib
import importlib.util
import sys

from styx import _report, runtime
from styx.errors import DefinitionError, DefinitionErrors
from styx.operator import declared


def main(entry: str) -> int:
    """The exit status: 1, and a line that `styx.build` understands, if it cannot become a component."""
    try:
        importlib.import_module(entry)
        runtime.functions_of(declared)
        if not runtime.describe(declared):
            raise _report.nothing_registered()
    except BaseException as error:
        if not _is_wrong_anywhere(error):
            return 0  # The real build says it, or does not mind.
        print(_report.line_of(error), file=sys.stderr)
        return 1
    return 0


#: What a component has and this interpreter may not have: modules of a newer Python, and of the builder.
_INSIDE = ("annotationlib", "compression", "wit_world", "componentize_py", "poll_loop", "_")


def _is_wrong_anywhere(error: BaseException) -> bool:
    if isinstance(error, (DefinitionError, DefinitionErrors, SyntaxError)):
        return True
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        is_known = package in sys.stdlib_module_names or package.startswith(_INSIDE)
        return bool(package) and not is_known and importlib.util.find_spec(package) is None
    if isinstance(error, ImportError):
        return error.name == "styx"
    if isinstance(error, NameError):
        # An older Python looks annotations up at once, before what they name is defined; builtins of a newer one are
        # exceptions.
        return sys.version_info >= (3, 14) and not (error.name or "Error").endswith(("Error", "Warning", "Exception", "Group"))
    if isinstance(error, AttributeError):
        return error.obj is sys.modules.get("styx")
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
