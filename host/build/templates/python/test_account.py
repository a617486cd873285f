import unittest

from styx.testing import CallFailed, Host

import account


class AccountTest(unittest.TestCase):
    def setUp(self):
        self.host = Host(account)
        self.host.call("account", "ann", "deposit", 100)

    def test_money_moves(self):
        self.assertEqual(self.host.call("account", "ann", "transfer", "bob", 30), 70)
        self.assertEqual(self.host.entries("account"), {"ann": 70, "bob": 30})

    def test_what_is_not_there_does_not_move(self):
        with self.assertRaises(CallFailed) as failed:
            self.host.call("account", "ann", "transfer", "bob", 300)
        self.assertEqual(failed.exception.app_code, "INSUFFICIENT_FUNDS")
        self.assertEqual(self.host.entries("account"), {"ann": 100})


if __name__ == "__main__":
    unittest.main()
