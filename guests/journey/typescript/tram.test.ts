import assert from "node:assert/strict";
import { test } from "node:test";

import { Host } from "styx-sdk/testing";
import { tram } from "./tram.js";

test("a seat is booked once", () => {
  const host = new Host([tram]);
  const friday = host.call(tram, "friday");
  assert.throws(() => friday.book(1, []), { message: "no tram runs on friday" });
  friday.create(3, 40);
  assert.equal(friday.book(2, []), 80);
  assert.throws(() => friday.book(2, []), { message: "the tram on friday is full", fullCode: "ABORTED:FULL" });
  assert.equal(friday.book(0, ["tram", "tram"]), 0);
  assert.equal(friday.book(1, []), 40);
});
