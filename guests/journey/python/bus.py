"""Buses, by day."""

import styx
from styx import Entity


class Bus(Entity):
    free: int
    price: int

    def book(self, seats: int, onward: list[str]) -> int:
        """Books seats here and on the legs after it: what all of them cost."""
        if self.free < seats:
            raise styx.Abort(f"the bus on {self.key} is full", code="FULL")
        self.free -= seats
        price = seats * self.price
        if onward:
            # The company of the next leg writes in another language: it is called by name.
            price += self.ctx.call(onward[0], self.key, "book", seats, onward[1:])
        return price
