"""`python -m styx._check ENTRY`: what is wrong with a project, before anything is packed.

Imports the app as a component would, in this very interpreter, which takes a
moment where packing takes many seconds. Only what is wrong in any interpreter
counts: an app may need one inside a component.
"""

import importlib
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
    except (DefinitionError, DefinitionErrors, SyntaxError) as error:
        print(_report.line_of(error), file=sys.stderr)
        return 1
    except BaseException:
        return 0  # The real build says it, or does not mind.
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
