import assert from "node:assert/strict";
import { test } from "node:test";

import { Host } from "styx-sdk/testing";
import { account } from "./account.js";

function host(): Host {
  const host = new Host([account]);
  host.call(account, "ann").deposit(100);
  return host;
}

test("money moves", () => {
  const bank = host();
  assert.equal(bank.call(account, "ann").transfer("bob", 30), 70);
  assert.deepEqual(bank.entries(account), [["ann", 70], ["bob", 30]]);
});

test("what is not there does not move", () => {
  const bank = host();
  assert.throws(() => bank.call(account, "ann").transfer("bob", 300), { appCode: "INSUFFICIENT_FUNDS" });
  assert.deepEqual(bank.entries(account), [["ann", 100]]);
});
