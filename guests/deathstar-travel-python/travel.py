"""Deathstar's travel agency: hotels nearby, recommendations, logins, and reservations of a room and a
seat, both or none.

What belongs to a city has keys `city:hotel` and lives together, so that a search is a scan of one
place; a hotel that opens meanwhile is in a search or is not, but never by half. Rooms and seats are
really taken: who comes too late gets nothing. The Rust guest of the same workload has the same names
and gives the same replies.
"""

import hashlib
from collections.abc import Callable
from math import sqrt
from typing import Literal

from styx import Context, Operator

geo = Operator("geo", key_prefix="city", doc="Where hotels are, by `city:hotel`.")
rate = Operator("rate", key_prefix="city", doc="What a night costs, by `city:hotel`; not every hotel tells.")
search = Operator("search", key_prefix="city", doc="Searches, by city.")
recommendation = Operator("recommendation", key_prefix="city", doc="Hotels that are recommended, by `city:hotel`.")
user = Operator("user", doc="Users, by name. Passwords are kept as hashes.")
hotel = Operator("hotel", doc="Rooms, by hotel.")
flight = Operator("flight", doc="Seats, by flight.")
order = Operator("order", doc="Trips, by order.")

#: As far as a search looks.
NEARBY_METRES = 10_000
#: As many hotels as it finds.
NEAREST = 5


def _metres_from(latitude: int, longitude: int) -> Callable[[int, int], int]:
    """Metres to another place of the city, in millionths of a degree, where the earth is flat enough."""
    # Only operations that round alike everywhere, in an order that is written down: no library's cosine.
    radians = latitude * 1.7453292519943295e-8
    square = radians * radians
    cosine = 1.0 - square / 2.0 + square * square / 24.0 - square * square * square / 720.0

    def metres(other_latitude: int, other_longitude: int) -> int:
        north = float(other_latitude - latitude)
        east = (other_longitude - longitude) * cosine
        return int(sqrt(north * north + east * east) * 0.111195)

    return metres


@geo.register(name="insert")
def insert_place(ctx: Context, latitude: int, longitude: int) -> None:
    """Adds a hotel, or moves it."""
    ctx.state.put([latitude, longitude])


@geo.register(name="nearby", read_only=True)
def nearby_places(ctx: Context, latitude: int, longitude: int) -> list:
    """The hotels of the key's city that are nearest, up to five within ten kilometres: [hotel, metres]."""
    prefix = f"{ctx.key}:"
    metres = _metres_from(latitude, longitude)
    found = sorted((metres(*place), key.removeprefix(prefix)) for key, place in ctx.state.scan(prefix))
    return [[name, distance] for distance, name in found[:NEAREST] if distance <= NEARBY_METRES]


@rate.register(name="insert")
def insert_rate(ctx: Context, cents: int) -> None:
    """Sets a hotel's rate, in cents."""
    ctx.state.put(cents)


@rate.register(read_only=True)
def of(ctx: Context, hotels: list[str]) -> list:
    """The rates of these hotels of the key's city, null for those that do not tell."""
    return [ctx.state.get(f"{ctx.key}:{name}") for name in hotels]


@search.register(read_only=True)
def nearby(ctx: Context, latitude: int, longitude: int) -> list:
    """The nearest hotels: [hotel, metres, rate in cents or null]."""
    found = ctx.call(geo, ctx.key, nearby_places, latitude, longitude)
    rates = ctx.call(rate, ctx.key, of, [name for name, _ in found])
    return [[*place, cents] for place, cents in zip(found, rates)]


@recommendation.register(name="insert")
def insert_recommendation(ctx: Context, latitude: int, longitude: int, rate: int, price: int) -> None:
    """Adds a hotel."""
    ctx.state.put([latitude, longitude, rate, price])


@recommendation.register(read_only=True)
def best(ctx: Context, by: Literal["distance", "rate", "price"], latitude: int, longitude: int) -> list[str]:
    """The best hotels of the key's city by `distance`, `rate` or `price`: several, if they are equally good."""
    prefix = f"{ctx.key}:"
    metres = _metres_from(latitude, longitude)
    # Less is better; a high rate counts as little.
    figures = {
        key.removeprefix(prefix): (metres(*place) if by == "distance" else -rating if by == "rate" else price)
        for key, (*place, rating, price) in ctx.state.scan(prefix)
    }
    least = min(figures.values(), default=None)
    return [name for name, figure in figures.items() if figure == least]


@user.register
def register(ctx: Context, password: str) -> None:
    """Registers a user, or sets the password."""
    ctx.state.put(_hash(ctx.key, password))


@user.register(read_only=True)
def login(ctx: Context, password: str) -> bool:
    """Whether this is the user's password."""
    return ctx.state.get() == _hash(ctx.key, password)


def _hash(name: str, password: str) -> str:
    """The name makes equal passwords different."""
    return hashlib.sha256(f"{name}:{password}".encode()).hexdigest()


@hotel.register(name="insert")
def insert_hotel(ctx: Context, capacity: int) -> None:
    """Opens a hotel with so many free rooms."""
    ctx.state.put(capacity)


@hotel.register(name="reserve")
def reserve_room(ctx: Context) -> None:
    """Takes a room; raises if there is none."""
    _take(ctx, "hotel")


@hotel.register(name="left", read_only=True)
def rooms_left(ctx: Context) -> int:
    """Free rooms."""
    return _left(ctx, "hotel")


@flight.register(name="insert")
def insert_flight(ctx: Context, capacity: int) -> None:
    """Opens a flight with so many free seats."""
    ctx.state.put(capacity)


@flight.register(name="reserve")
def reserve_seat(ctx: Context) -> None:
    """Takes a seat; raises if there is none."""
    _take(ctx, "flight")


@flight.register(name="left", read_only=True)
def seats_left(ctx: Context) -> int:
    """Free seats."""
    return _left(ctx, "flight")


def _take(ctx: Context, what: str) -> None:
    left = _left(ctx, what)
    if left < 1:
        raise ValueError(f"{what} {ctx.key} is sold out")
    ctx.state.put(left - 1)


def _left(ctx: Context, what: str) -> int:
    left = ctx.state.get()
    if left is None:
        raise LookupError(f"there is no {what} {ctx.key}")
    return left


@order.register
def reserve(ctx: Context, hotel: str, flight: str, user: str) -> None:
    """Books a room and a seat, both or none."""
    if ctx.state.get() is not None:
        raise ValueError(f"order {ctx.key} exists already")
    # The parameters hide the operators: callers know them by these names.
    ctx.call_async("hotel", hotel, "reserve")
    ctx.call_async("flight", flight, "reserve")
    ctx.state.put([hotel, flight, user])


@order.register(name="list", read_only=True)
def list_orders(ctx: Context, after: str | None, limit: int) -> list:
    """A page of all orders, [hotel, flight, user] of each: [orders, last key of the page or null]."""
    page = [*ctx.state.scan(after=after, limit=limit)]
    return [[trip for _, trip in page], page[-1][0] if page and len(page) == limit else None]
