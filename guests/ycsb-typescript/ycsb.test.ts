import assert from "node:assert/strict";
import { test } from "node:test";

import { Host } from "styx-sdk/testing";
import { account, member, record } from "./ycsb.js";

test("transfers move one and keep the sum", () => {
  const host = new Host([account, member, record]);
  host.call(account, "1").insert(1);
  host.call(account, "2").insert(0);
  assert.equal(host.call(account, "1").transfer("2"), 0);
  assert.equal(host.call(account, "2").read(), 1);
  const aborts = (message: string, call: () => unknown) => assert.throws(call, { code: "ABORTED", message });
  aborts("account 1 has nothing left", () => host.call(account, "1").transfer("2"));
  aborts("a transfer needs two accounts", () => host.call(account, "1").transfer("1"));
  aborts("there is no account 3", () => host.call(account, "2").transfer("3"));
  assert.equal(host.call(account, "1").read(), 0);
  assert.equal(host.call(account, "2").read(), 1);
  assert.equal(host.call(account, "2").update(), 2);
  assert.equal(host.call(account, "2").transfer_async("1"), 1);
  aborts("there is no account 3", () => host.call(account, "2").transfer_async("3"));
  assert.deepEqual(host.call(account, "1").sum(null, 2), [2, 2, "2"]);
  assert.deepEqual(host.call(account, "1").sum("2", 2), [0, 0, null]);
  assert.deepEqual(host.call(account, "1").sum(null, 3), [2, 2, null]);
  host.call(account, "4").insert(Number.MAX_SAFE_INTEGER);
  aborts("account 4 is full", () => host.call(account, "4").update());
});

test("members of a group transfer and are summed together", () => {
  const host = new Host([account, member, record]);
  host.call(member, "a:1").insert(1);
  host.call(member, "a:2").insert(0);
  host.call(member, "b:1").insert(7);
  assert.equal(host.call(member, "a:1").transfer("a:2"), 0);
  assert.equal(host.call(member, "a:2").read(), 1);
  assert.throws(() => host.call(member, "a:1").transfer("a:2"), { message: "account a:1 has nothing left" });
  assert.deepEqual(host.call(member, "a:").sum(null, 2), [2, 1, "a:2"]);
  assert.deepEqual(host.call(member, "a:").sum("a:2", 2), [0, 0, null]);
  assert.deepEqual(host.call(member, "b:").sum(null, 2), [1, 7, null]);
});

test("fields are replaced one at a time", () => {
  const host = new Host([account, member, record]);
  assert.throws(() => host.call(record, "r").read(), { message: "there is no record r" });
  host.call(record, "r").insert(["a", "b"]);
  host.call(record, "r").update(1, "cé");
  assert.throws(() => host.call(record, "r").update(2, "e"), { message: "record r has no field 2" });
  assert.deepEqual(host.call(record, "r").read(), ["a", "cé"]);
  assert.deepEqual(host.call(record, "r").count(null, 1), [1, 4, "r"]);
  assert.deepEqual(host.call(record, "r").count("r", 1), [0, 0, null]);
});
