"""Random numbers and time depend on the invocation alone."""

import os
import random
import secrets
import sys
import time
import uuid
from random import gauss, randint

import pytest

from styx import Context, Operator
from styx.determinism import Random, install, invocation, stream
from styx.testing import Host

dice = Operator("dice")


@dice.register
def roll(ctx: Context, ways: list[str]) -> list:
    chances = {
        "module": lambda: [
            random.random(),
            random.randint(1, 6),
            random.sample(range(100), 3),
            random.randbytes(5).hex(),
        ],
        "imported": lambda: [randint(1, 10**9), gauss(0, 1)],
        "unseeded": lambda: random.Random().random(),
        "context": lambda: [ctx.random.random(), ctx.random.choice("abcdef"), ctx.random.shuffle([1, 2])],
        "uuid": lambda: str(uuid.uuid4()),
        "secrets": lambda: secrets.token_hex(8),
        "urandom": lambda: os.urandom(9).hex(),
        "time": lambda: [time.time(), time.time_ns(), ctx.time, ctx.time_us, ctx.now.isoformat()],
        "gauss": lambda: random.gauss(0, 1),  # keeps a second number for the next call
        "seed": lambda: [random.seed(5), random.random(), random.getrandbits(70)],
        "nested": lambda: ctx.call(dice, "inner", roll, ["module", "seed"]),
    }
    return [chances[way]() for way in ways]


@pytest.fixture
def host():
    return Host(sys.modules[__name__])


WAYS = ["module", "imported", "unseeded", "context", "uuid", "secrets", "urandom", "time", "gauss"]


@pytest.mark.parametrize("way", WAYS)
def test_the_same_transaction_sees_the_same(way):
    first, second, other_seed = (
        Host(sys.modules[__name__], seed=seed).call("dice", "d", "roll", [way]) for seed in (0, 0, 1)
    )
    assert first == second
    assert (first == other_seed) == (way == "time")


@pytest.mark.parametrize("way", WAYS)
def test_another_transaction_sees_something_else(host, way):
    assert host.call("dice", "d", "roll", [way]) != host.call("dice", "d", "roll", [way])


def test_transactions_leave_nothing_behind_in_the_process(host):
    random.seed(1)
    gauss(0, 1)
    state, functions = random.getstate(), (random.random, random.Random, time.time, os.urandom)
    host.call("dice", "d", "roll", [*WAYS, "seed", "nested"])
    assert random.getstate() == state
    assert (random.random, random.Random, time.time, os.urandom) == functions


def test_a_seed_holds_for_its_invocation_only(host):
    expected = [None, random.Random(5).random()]
    seeded, inner, plain = host.call("dice", "d", "roll", ["seed", "nested", "module"])
    assert seeded[:2] == inner[1][:2] == expected
    # The caller's generator is still seeded after a call that seeded its own.
    generator = random.Random(5)
    generator.random(), generator.getrandbits(70)
    assert plain[0] == generator.random()
    assert host.call("dice", "d", "roll", ["module"])[0][0] != random.Random(5).random()


def test_time_moves_between_transactions_and_can_be_set(host):
    host.time_us = 1_800_000_000_123_456
    assert host.call("dice", "d", "roll", ["time"]) == [
        [
            1800000000.123456,
            1800000000123456000,
            1800000000.123456,
            1800000000123456,
            "2027-01-15T08:00:00.123456+00:00",
        ]
    ]
    assert host.call("dice", "d", "roll", ["time"])[0][3] > 1_800_000_000_123_456


# What happens inside a component, where one process serves invocation after invocation.


def in_invocation(seed, body):
    """Runs `body` as an invocation whose host draws from `seed`."""
    undo = install(stream(seed))
    try:
        with invocation.nested():
            return body()
    finally:
        undo()


@pytest.mark.parametrize("seed", [None, 42])
@pytest.mark.parametrize(
    "use",
    [
        lambda g: [g.random(), g.gauss(0, 1), g.random()],
        lambda g: [g.gauss(0, 1)],
        lambda g: [g.seed(3), g.random(), g.gauss(0, 1)],
        lambda g: [g.setstate(random.Random(9).getstate()), g.random()],
        lambda g: [g.getstate()[1][:3], g.random()],
        lambda g: [g.seed(), g.random()],
        lambda g: [g.getrandbits(200), g.randbytes(9), g.shuffle([1, 2, 3]), g.getrandbits(0)],
    ],
)
def test_a_generator_of_the_module_starts_every_invocation_anew(seed, use):
    generator = Random(seed)
    first = in_invocation(1, lambda: use(generator))
    between = in_invocation(2, lambda: [generator.random(), generator.gauss(0, 1)])
    assert in_invocation(1, lambda: use(generator)) == first
    assert in_invocation(2, lambda: [generator.random(), generator.gauss(0, 1)]) == between


def test_a_seeded_generator_is_that_of_the_standard_library():
    ours, theirs = Random(42), random.Random(42)
    for method, args in [("random", ()), ("getrandbits", (77,)), ("gauss", (0, 1)), ("sample", (range(50), 5))]:
        assert getattr(ours, method)(*args) == getattr(theirs, method)(*args)


def test_unused_generators_cost_no_settling():
    Random(3)
    with invocation.nested():
        random.Random(4).random()
        assert not invocation.is_dirty


def test_random_numbers_are_uniform():
    def draws():
        return [random.random() for _ in range(4000)], [random.randint(1, 6) for _ in range(6000)]

    fractions, rolls = in_invocation(7, draws)
    assert all(0 <= fraction < 1 for fraction in fractions)
    assert 0.48 < sum(fractions) / len(fractions) < 0.52
    assert all(850 < rolls.count(face) < 1150 for face in range(1, 7))


def test_negative_bits_are_refused():
    with pytest.raises(ValueError):
        Random().getrandbits(-1)
