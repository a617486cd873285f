"""Random numbers that belong to the invocation, however the program asks for them.

A warm instance would carry the state of Python's generators from call to call
and answer differently in a replay. Inside a component the module `random` is
therefore made to draw from the host's generator of the running invocation, and
what programs do to a generator (seeding it, say) is undone when the invocation
ends. Clocks and `os.urandom` (with `secrets` and `uuid.uuid4`) need nothing
here: they are system calls, which the host answers from the transaction.
"""

import random as _random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_Draw = Callable[[], int]


def stream(seed: int) -> _Draw:
    """SplitMix64: 64 random bits per call, for where no host answers."""
    state = seed & _MASK

    def draw() -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    return draw


_MASK = (1 << 64) - 1


class Invocation:
    """What the running invocation leaves behind that the next one must not see."""

    __slots__ = ("is_dirty", "is_running", "_undo")

    def __init__(self) -> None:
        #: Checked after every invocation: the only cost if nothing happened.
        self.is_dirty = False
        #: False while modules are imported: generators made then outlive invocations.
        self.is_running = False
        self._undo: list[Callable[[], None]] = []

    def at_end(self, undo: Callable[[], None]) -> None:
        """Has `undo` run when the invocation ends."""
        self._undo.append(undo)
        self.is_dirty = True

    def settle(self) -> None:
        """Ends the invocation."""
        while self._undo:
            self._undo.pop()()
        self.is_dirty = False

    @contextmanager
    def nested(self) -> Iterator[None]:
        """An invocation inside of another one, which only a test host has."""
        outer = (self.is_dirty, self.is_running, self._undo)
        self.is_dirty, self.is_running, self._undo = False, True, []
        try:
            yield
        finally:
            self.settle()
            self.is_dirty, self.is_running, self._undo = outer


#: The running invocation of this instance; an instance runs one at a time.
invocation = Invocation()


class Random(_random.Random):
    """A `random.Random` that draws from the host until it is seeded.

    One that was made while modules were imported starts every invocation as it
    was left by the import.
    """

    #: Where unseeded generators draw from: the host of the component.
    host_draw: _Draw = staticmethod(stream(0))

    def __init__(self, seed: Any = None, *, draw: _Draw | None = None) -> None:
        self._own_draw = draw
        self._outlives = not invocation.is_running
        self._is_changed = False
        self._is_seeded = False
        super().__init__(seed)

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Restarts from `a` for the rest of the invocation, or goes back to the host's numbers."""
        self._change()
        self.gauss_next = None
        self._is_seeded = a is not None
        if a is not None:
            super().seed(a, version)

    def random(self) -> float:
        """A number in [0, 1)."""
        self._change()
        if self._is_seeded:
            return super().random()
        return (self._draw() >> 11) * 2.0**-53

    def getrandbits(self, k: int) -> int:
        """`k` random bits."""
        self._change()
        if self._is_seeded:
            return super().getrandbits(k)
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        bits = 0
        for filled in range(0, k, 64):
            bits |= self._draw() << filled
        return bits & ((1 << k) - 1)

    def getstate(self) -> Any:
        """The state for `setstate`. The host's numbers cannot be rewound, so this seeds the generator."""
        if not self._is_seeded:
            self.seed(self._draw())
        return super().getstate()

    def setstate(self, state: Any) -> None:
        """Goes back to a state of `getstate`."""
        self._change()
        self._is_seeded = True
        super().setstate(state)

    def __reduce__(self) -> Any:
        return type(self), (), self.getstate()

    def _draw(self) -> int:
        return (self._own_draw or Random.host_draw)()

    def _change(self) -> None:
        """Called before every change: remembers what to return to."""
        if self._is_changed or not self._outlives or not invocation.is_running:
            return
        self._is_changed = True
        was_seeded = self._is_seeded
        gauss_next = self.gauss_next
        state = super().getstate() if was_seeded else None

        def undo() -> None:
            if state is not None:
                super(Random, self).setstate(state)
            self._is_seeded = was_seeded
            self.gauss_next = gauss_next
            self._is_changed = False

        invocation.at_end(undo)


def _module_functions() -> list[str]:
    """Names of the functions of the module `random` that are methods of its hidden generator."""
    return [name for name in _random.__all__ if getattr(getattr(_random, name), "__self__", None) is not None]


def install(draw: _Draw) -> Callable[[], None]:
    """Makes the module `random` draw from `draw`. Returns what undoes it.

    Must come before the import of user code, which may say `from random import random`.
    """
    generator = Random()
    names = _module_functions()
    saved = {name: getattr(_random, name) for name in (*names, "_inst", "Random")}
    saved_draw = Random.host_draw
    Random.host_draw = staticmethod(draw)
    for name in names:
        setattr(_random, name, getattr(generator, name))
    _random._inst = generator
    _random.Random = Random

    def undo() -> None:
        Random.host_draw = staticmethod(saved_draw)
        for name, value in saved.items():
            setattr(_random, name, value)

    return undo


def install_uuid() -> None:
    """Keeps `uuid1`, `uuid6` and `uuid7` from remembering earlier invocations. For components only."""
    import uuid

    # The memory is in module variables; a fixed, locally administered node stands in for the MAC address.
    uuid._node = 0x02_53_54_59_58_00
    remembered = [name for name in vars(uuid) if name.startswith("_last_")]
    initial = {name: getattr(uuid, name) for name in remembered}

    def forgetful(function: Callable) -> Callable:
        def make(*args: Any, **kwargs: Any) -> Any:
            invocation.at_end(lambda: vars(uuid).update(initial))
            return function(*args, **kwargs)

        make.__name__, make.__doc__ = function.__name__, function.__doc__
        return make

    for name in ("uuid1", "uuid6", "uuid7"):
        if hasattr(uuid, name):
            setattr(uuid, name, forgetful(getattr(uuid, name)))
