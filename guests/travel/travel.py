"""A trip is a hotel room and a seat on a flight, or nothing (Styx, Figure 2).

`make_reservation` calls two other entities asynchronously; if either has no
capacity left, the exception aborts the whole transaction and neither has lost
anything.
"""

from styx import Context, Operator

reservation = Operator("reservation", doc="Trips, by reservation id.")
hotel = Operator("hotel", doc="Hotels, by hotel id.")
flight = Operator("flight", doc="Flights, by flight id.")


@reservation.register
def make_reservation(ctx: Context, flight_id: str, hotel_id: str, user_id: str) -> dict:
    """Books a room and a seat for a user, both or none."""
    if ctx.state.get() is not None:
        raise ValueError(f"reservation {ctx.key} exists already")
    ctx.call_async(hotel, hotel_id, reserve_hotel)
    ctx.call_async(flight, flight_id, reserve_flight)
    booked = {"flight_id": flight_id, "hotel_id": hotel_id, "user_id": user_id}
    ctx.state.put(booked)
    return booked


@reservation.register(read_only=True)
def get_reservation(ctx: Context) -> dict | None:
    """The trip, if it was booked."""
    return ctx.state.get()


@hotel.register(name="create")
def create_hotel(ctx: Context, rooms: int) -> int:
    """Opens a hotel with so many free rooms."""
    ctx.state.put({"rooms": rooms})
    return rooms


@hotel.register
def reserve_hotel(ctx: Context) -> int:
    """Takes one room; raises when there is none. Returns how many are left."""
    entity = ctx.state.get()
    if entity is None:
        raise LookupError(f"there is no hotel {ctx.key}")
    if entity["rooms"] < 1:
        raise ValueError(f"hotel {ctx.key} is full")
    entity["rooms"] -= 1
    ctx.state.put(entity)
    return entity["rooms"]


@hotel.register(read_only=True)
def rooms_left(ctx: Context) -> int:
    """Free rooms."""
    return (ctx.state.get() or {"rooms": 0})["rooms"]


@flight.register(name="create")
def create_flight(ctx: Context, seats: int) -> int:
    """Opens a flight with so many free seats."""
    ctx.state.put({"seats": seats})
    return seats


@flight.register
def reserve_flight(ctx: Context) -> int:
    """Takes one seat; raises when there is none. Returns how many are left."""
    entity = ctx.state.get()
    if entity is None:
        raise LookupError(f"there is no flight {ctx.key}")
    if entity["seats"] < 1:
        raise ValueError(f"flight {ctx.key} is full")
    entity["seats"] -= 1
    ctx.state.put(entity)
    return entity["seats"]


@flight.register(read_only=True)
def seats_left(ctx: Context) -> int:
    """Free seats."""
    return (ctx.state.get() or {"seats": 0})["seats"]
