"""The module that componentize-py makes a component of: the app is imported, hints are resolved, and the finished interpreter is
what the component starts from.
"""

import wit_world

from styx import _exports, _report, determinism

try:
    _describe = _exports.exports_of_app()
except BaseException as error:
    print(_report.line_of(error), file=_exports.original_stderr, flush=True)
    raise


class WitWorld(wit_world.WitWorld):
    """What the component exports besides `invoke`, which is `_native`'s."""

    describe = staticmethod(_describe)


_exports.freeze()
determinism.invocation.is_running = True
