"""The example apps, run on the in-memory host."""

import pytest

from styx import CallFailed, Operator
from styx.testing import Host


def open_travel(travel, rooms, seats):
    host = Host(travel)
    host.call("hotel", "ritz", "create", rooms)
    host.call("flight", "KL1", "create", seats)
    return host


def test_a_reservation_takes_a_room_and_a_seat(travel):
    host = open_travel(travel, 2, 3)
    booked = host.call(travel.reservation, "r1", travel.make_reservation, "KL1", "ritz", "ann")
    assert booked == {"flight_id": "KL1", "hotel_id": "ritz", "user_id": "ann"}
    assert host.calls == [
        ("reservation", "r1", "make_reservation"),
        ("hotel", "ritz", "reserve_hotel"),
        ("flight", "KL1", "reserve_flight"),
    ]
    assert host.call("hotel", "ritz", "rooms_left") == 1
    assert host.call("flight", "KL1", "seats_left") == 2
    assert host.call("reservation", "r1", "get_reservation") == booked


@pytest.mark.parametrize("rooms, seats, message", [(0, 5, "hotel ritz is full"), (5, 0, "flight KL1 is full")])
def test_a_trip_is_booked_whole_or_not_at_all(travel, rooms, seats, message):
    host = open_travel(travel, rooms, seats)
    with pytest.raises(CallFailed) as failed:
        host.call("reservation", "r1", "make_reservation", "KL1", "ritz", "ann")
    assert (failed.value.code, failed.value.message) == ("ABORTED", message)
    assert host.get("reservation", "r1") is None
    assert host.get("hotel", "ritz") == {"rooms": rooms}
    assert host.get("flight", "KL1") == {"seats": seats}


def test_capacity_is_never_oversold(travel):
    host = open_travel(travel, 10, 12)
    outcomes = []
    for number in range(15):
        try:
            host.call("reservation", f"r{number}", "make_reservation", "KL1", "ritz", "u")
            outcomes.append(True)
        except CallFailed:
            outcomes.append(False)
    assert outcomes == [True] * 10 + [False] * 5
    assert host.get("hotel", "ritz") == {"rooms": 0}
    assert host.get("flight", "KL1") == {"seats": 2}
    assert len(host.entries("reservation")) == 10


def open_shop(cart, stock, price, credit):
    items = Operator("stock")

    @items.register
    def take(ctx, quantity: int) -> int:
        item = ctx.state.get()
        if item["stock"] < quantity:
            raise ValueError(f"not enough {ctx.key}")
        item["stock"] -= quantity
        ctx.state.put(item)
        return item["price"] * quantity

    host = Host(cart, items)
    host.put("stock", "apple", {"stock": stock, "price": price})
    host.call("user", "ann", "create", credit)
    return host


def test_a_cart_is_filled_and_paid(cart):
    host = open_shop(cart, stock=5, price=3, credit=20)
    host.call("order", "o1", "add_item", "apple", 2)
    assert host.call("order", "o1", "add_item", "apple", 3) == {"items": {"apple": 5}, "total": 15, "paid_by": None}
    assert host.call("order", "o1", "checkout", "ann")["paid_by"] == "ann"
    assert host.call("user", "ann", "credit") == 5
    assert host.get("stock", "apple") == {"stock": 0, "price": 3}
    with pytest.raises(CallFailed, match="paid already"):
        host.call("order", "o1", "checkout", "ann")


def test_a_cart_aborts_on_stock_and_on_credit(cart):
    host = open_shop(cart, stock=5, price=3, credit=5)
    with pytest.raises(CallFailed, match="not enough apple"):
        host.call("order", "o1", "add_item", "apple", 6)
    assert host.call("order", "o1", "get") == {"items": {}, "total": 0, "paid_by": None}
    host.call("order", "o1", "add_item", "apple", 2)
    with pytest.raises(CallFailed, match="credit of 5, but 6 is due"):
        host.call("order", "o1", "checkout", "ann")
    assert host.get("user", "ann") == {"credit": 5}
    assert host.get("order", "o1")["paid_by"] is None
    with pytest.raises(CallFailed) as failed:
        host.call("order", "o1", "add_item", "apple", "two")
    assert failed.value.code == "BAD_ARGUMENTS"
    assert failed.value.message == 'order.add_item: quantity must be an integer, not "two"'


def test_transfers_keep_the_sum(ycsb):
    host = Host(ycsb)
    for number in range(4):
        host.call("account", str(number), "insert", 2)
    host.call("account", "9", "insert", 1_000_000)
    assert host.call("account", "9", "read") == 1_000_000
    assert host.call("account", "9", "update") == 1_000_001
    done = 0
    for number in range(12):
        try:
            host.call("account", str(number % 2), "transfer", str(2 + number % 2))
            done += 1
        except CallFailed as failed:
            assert "has nothing left" in failed.message
    assert done == 4
    assert host.entries("account") == {"0": 0, "1": 0, "2": 4, "3": 4, "9": 1_000_001}
    with pytest.raises(CallFailed, match="no account 77"):
        host.call("account", "0", "transfer", "77")


def test_records_are_counted_with_the_bytes_of_their_fields(ycsb):
    host = Host(ycsb)
    host.call("record", "r", "insert", ["a", "b"])
    host.call("record", "r", "update", 1, "cé")
    with pytest.raises(CallFailed, match="record r has no field 2"):
        host.call("record", "r", "update", 2, "e")
    assert host.call("record", "r", "read") == ["a", "cé"]
    assert host.call("record", "r", "count", None, 1) == [1, 4, "r"]
