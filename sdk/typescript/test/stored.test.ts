/** Types of state: what is described of them, and how values of earlier ones become such of the present one. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { operator, readOnly, stateOf, type Context, type int, type ReadContext } from "styx-sdk";
import { CallFailed, Host } from "styx-sdk/testing";

interface Stock {
  cents: int;
  tags?: string[];
}

class NoPrice extends Error {}

const stock = operator(
  "stock",
  {
    look: (ctx: Context<Stock>): int => ctx.state.get()!.cents,
    peek: readOnly((ctx: ReadContext<Stock>): int => ctx.state.get()!.cents),
    lookAt: (ctx: Context<Stock>, key: string): int => ctx.state.get(key)!.cents,
    total: (ctx: Context<Stock>): int => ctx.state.scan().reduce((sum, [, { cents }]) => sum + cents, 0),
    callIt: (ctx: Context<Stock>): boolean => ctx.call("stock", "b")["styx.migrate"]!(),
  },
  {
    state: stateOf<Stock>(),
    migrate(old) {
      if (old === "wrong") return { cents: "three" } as never;
      if (old.euros === undefined) throw new NoPrice("it has no price");
      return { cents: old.euros * 100 };
    },
  },
);

const plain = operator("plain", { get: (ctx: Context<string | null>) => ctx.state.get() ?? null }, { state: stateOf<string | null>() });

function described(name: string): Record<string, string> {
  const found = new Host([stock, plain]).describe().operators.find((each) => each.name === name)!;
  return Object.fromEntries(found.functions.filter((each) => each.name.startsWith("styx.")).map((each) => [each.name, each.returns]));
}

function host(): Host {
  const host = new Host([stock, plain]);
  for (const key of ["a", "b", "c"]) host.put(stock, key, { euros: 3, gone: true });
  return host;
}

function refused(call: () => unknown): CallFailed {
  try {
    call();
  } catch (error) {
    if (error instanceof CallFailed) return error;
    throw error;
  }
  return assert.fail("it was not refused");
}

test("an operator tells of what type its values are", () => {
  const schema = {
    title: "Stock",
    type: "object",
    properties: { cents: { type: "integer" }, tags: { type: "array", items: { type: "string" } } },
    required: ["cents"],
  };
  const { "styx.state": state, "styx.migrate": migrate } = described("stock");
  assert.deepEqual(JSON.parse(state!), schema);
  assert.equal(migrate, '{"type":"boolean"}');
  assert.deepEqual(described("plain"), { "styx.state": '{"anyOf":[{"type":"string"},{"type":"null"}]}' });
  assert.throws(() => operator("lost", { f() {} }, { migrate: (old) => old }), /lost migrates, and does not say to what/);
});

test("what is of an earlier type is migrated when it is read", () => {
  const app = host();
  const old = { euros: 3, gone: true };
  assert.equal(app.call(stock, "a").peek(), 300);
  assert.equal(app.call(stock, "a").total(), 900);
  assert.deepEqual(app.get(stock, "a"), old, "who only reads or scans writes nothing");
  assert.equal(app.call(stock, "a").look(), 300);
  assert.equal(app.call(stock, "a").lookAt("b"), 300);
  assert.deepEqual([app.get(stock, "a"), app.get(stock, "b"), app.get(stock, "c")], [{ cents: 300 }, { cents: 300 }, old]);
  app.put(stock, "d", "wrong");
  assert.match(refused(() => app.call(stock, "d").look()).message, /the migration of stock returned another type: it.cents must be an integer/);
});

test("the host has it migrated, and no function", () => {
  const app = host();
  const migrate = (key: string) => app.call("stock", key)["styx.migrate"]!();
  assert.match(refused(() => app.call(stock, "a").callIt()).message, /operator "stock" has no function "styx.migrate"/);
  assert.equal(migrate("a"), true);
  assert.equal(migrate("a"), false);
  assert.equal(migrate("absent"), false);
  assert.deepEqual([app.get(stock, "a"), app.get(stock, "absent")], [{ cents: 300 }, undefined]);
  app.put(stock, "free", {});
  const failure = refused(() => migrate("free"));
  assert.deepEqual([failure.code, failure.message], ["ABORTED", "it has no price"]);
  assert.equal(refused(() => app.call("plain", "k")["styx.migrate"]!()).code, "UNKNOWN_FUNCTION");
});
