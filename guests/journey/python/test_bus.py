import unittest

from styx.testing import CallFailed, Host

import bus


class BusTest(unittest.TestCase):
    def test_a_seat_is_booked_once(self):
        host = Host(bus)
        with self.assertRaisesRegex(CallFailed, "there is no bus 'friday'"):
            host.at(bus.Bus, "friday").book(1, [])
        friday = host.create(bus.Bus, "friday", free=3, price=40)
        self.assertEqual(friday.book(2, []), 80)
        with self.assertRaisesRegex(CallFailed, "the bus on friday is full") as refused:
            friday.book(2, [])
        self.assertEqual(refused.exception.app_code, "FULL")
        self.assertEqual(friday.book(0, ["bus", "bus"]), 0)
        self.assertEqual(host.get(bus.Bus, "friday"), {"free": 1, "price": 40})
