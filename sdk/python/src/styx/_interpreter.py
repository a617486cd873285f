"""The module that componentize-py makes an interpreter without an app of: a component that takes one in later.

Its `invoke` is called once, by the builder, who answers `state.get` of a path with the file that is there: that imports the app, as
`_component` does while componentize-py runs, and leaves the component's own exports. What then exists is the component.
There are no files here: whatever asks for one at import has the builder give up, and let componentize-py do it.
"""

import io
import logging
import os
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location

import wit_world
from wit_world.imports import state

from styx import _exports, _native, determinism

# Of a package that is not frozen into the interpreter: those that are say where it would be.
_LIBRARY = os.path.dirname(os.path.dirname(logging.__file__))


class _Loader(SourceFileLoader):
    """Gets a module's source from the builder."""

    def get_data(self, path):
        data = None if determinism.invocation.is_running else state.get(path)
        if data is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        return data

    def path_stats(self, path):
        raise FileNotFoundError(2, "No such file or directory", path)


class _Finder:
    """Finds modules where a path-based finder would, among the builder's files."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        tail = name.rpartition(".")[2]
        portions = []
        for entry in sys.path if path is None else path:
            place = f"{entry}/{tail}"
            state.get(f"{place}*")  # Refused, if there is anything but source.
            for file, inside in ((f"{place}/__init__.py", [place]), (f"{place}.py", None)):
                if state.get(file) is not None:
                    loader = _Loader(name, file)
                    return spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)
            if state.get(f"{place}/") is not None:
                portions.append(place)
        if not portions:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = portions
        return spec


class _Nowhere(io.TextIOBase):
    """What is printed while modules are imported is not seen."""

    def write(self, text):
        return len(text)


def _shadowed():
    """Modules of the app or its packages whose names the SDK has imported others under, which might have been these."""
    loaded = {name for name in sys.modules if "." not in name}
    places = [f"/{root}/{name}" for root in (2, 3) for name in sorted(loaded)]
    return [place for place in places if any(state.get(place + end) is not None for end in (".py", "/__init__.py"))]


def _load(function, key, args):
    if shadowed := _shadowed():
        raise _exports.failure("NOT_LOADED", f"imported already: {', '.join(shadowed)}")
    finders, outputs = sys.meta_path[:], [sys.stdout, sys.stderr]
    originals = [output._original for output in outputs]
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter, _Finder]
    for output in outputs:
        output._original = _Nowhere()
    try:
        WitWorld.describe = staticmethod(_exports.exports_of_app())
    except BaseException as error:
        raise _exports.failure("NOT_LOADED", f"{type(error).__name__}: {error}") from None
    finally:
        sys.meta_path[:] = finders
        for output, original in zip(outputs, originals):
            output._original = original
    _exports.freeze()
    determinism.invocation.is_running = True
    return b""


class WitWorld(wit_world.WitWorld):
    """The exports, once there is an app."""

    def describe(self):
        raise NotImplementedError("there is no app")


def _copy_library(target):
    """The standard library is nowhere but in the tool: whoever loads an app later needs its sources."""
    for folder, _, files in os.walk(_LIBRARY):
        inside = os.path.join(target, os.path.relpath(folder, _LIBRARY))
        os.makedirs(inside, exist_ok=True)
        for name in files:
            is_source = name.endswith(".py")
            if is_source or name.endswith(".so"):
                with open(os.path.join(folder, name), "rb") as file, open(os.path.join(inside, name), "wb") as copy:
                    copy.write(file.read() if is_source else b"")
    with open(os.path.join(target, "PATH"), "w") as file:
        file.write(_LIBRARY)


_native.call_in_python(_load)
_copy_library("/0/library")
_exports.freeze()
