import assert from "node:assert/strict";
import { test } from "node:test";

import { Host } from "styx-sdk/testing";
import { item, order, user } from "./cart.js";

test("a checkout takes stock and credit or nothing", () => {
  const host = new Host([user, item, order]);
  host.call(user, "ann").insert(100);
  host.call(item, "pen").insert(5, 10);
  host.call(item, "cup").insert(9, 20);
  host.call(order, "o1").insert("ann", [["pen", 2, 10], ["cup", 1, 20]]);
  assert.equal(host.call(order, "o1").checkout(), 40);
  assert.equal(host.call(order, "o1").checkout(), 40);
  assert.throws(() => host.call(order, "o1").checkout(), { code: "ABORTED", message: "not enough of item pen" });
  host.call(item, "pen").insert(5, 10);
  assert.throws(() => host.call(order, "o1").checkout(), { message: "user ann has a credit of 20, but 40 is due" });
  assert.throws(() => host.call(order, "o2").checkout(), { message: "there is no order o2" });
  assert.deepEqual(host.call(user, "").audit(null, 9), [1, 20, null]);
  assert.deepEqual(host.call(item, "").audit(null, 9), [2, 12, 190, null]);
  assert.deepEqual(host.call(order, "").audit(null, 1), [1, 2, 6, 80, "o1"]);
});
