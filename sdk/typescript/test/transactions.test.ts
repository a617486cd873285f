import assert from "node:assert/strict";
import { test } from "node:test";

import { operator, readOnly, type Context, type int, type Json } from "styx-sdk";
import { CallFailed, Host } from "styx-sdk/testing";
import { item, order } from "./shop.js";

function shop(): Host {
  const host = new Host([item, order]);
  host.call(item, "pen").insert(3, 10);
  return host;
}

/** The code and the message of a failure. */
function failure(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof CallFailed, String(error));
    return `${error.code}: ${error.message}`;
  }
  return "no failure";
}

test("a call's writes count, and those of a failed one do not", () => {
  const host = shop();
  assert.equal(host.call(order, "o").buy("pen", 2), 20);
  assert.deepEqual([host.get(item, "pen"), host.get(order, "o")], [{ stock: 1, price: 10 }, 20]);
  assert.equal(failure(() => host.call(order, "o").buy("pen", 2)), "ABORTED: not enough pen");
  assert.deepEqual(host.entries(order), [["o", 20]]);
});

test("asynchronous calls run afterwards, and abort the whole", () => {
  const host = shop();
  host.call(order, "o").buyLater(["pen", "pen"]);
  assert.deepEqual(host.calls.map((call) => call.join(" ")), ["order o buyLater", "item pen take", "item pen take"]);
  assert.equal(failure(() => host.call(order, "p").buyLater(["pen", "cup"])), "ABORTED: there is no cup");
  assert.deepEqual([host.get(item, "pen").stock, host.get(order, "p")], [1, undefined]);
});

test("a failed call cannot be saved, but explained", () => {
  const host = shop();
  assert.equal(failure(() => host.call(order, "o").careless()), "ABORTED: there is no nothing");
  assert.equal(failure(() => host.call(order, "o").telling()), "ABORTED: no order without it: there is no nothing");
  assert.equal(failure(() => host.call(order, "o").byName("item", "nap")), 'GUEST_EXCEPTION: order.byName called nobody: operator "item" has no function "nap"');
  assert.match(failure(() => host.call(order, "o").byName("moon", "rise")), /^GUEST_EXCEPTION: order.byName called nobody: there is no operator "moon"/);
  assert.equal(host.call(order, "o").byName("item", "insert"), null);
});

test("an operator of another app has that before its name", () => {
  const account = operator("account", {
    nap(ctx: Context<number>, cents: int): Json {
      ctx.state.put((ctx.state.get() ?? 0) + cents);
      if (ctx.key !== "x") throw new Error("no");
      ctx.callAsync<{ note(): void }>("rates", "usd").note();
      return [ctx.app, ctx.operator, ctx.call<{ rate(): int }>("rates", "usd").rate()];
    },
  });
  const rates = operator("rates", {
    rate: readOnly((): int => 7),
    note(ctx: Context<number>) {
      ctx.state.put(1);
    },
  });
  const host = new Host([item, order], { app: "shop", apps: { billing: [account, rates] } });
  assert.deepEqual(host.call(order, "o").byName("billing/account", "nap"), ["billing", "account", 7]);
  assert.deepEqual(host.calls.map((call) => call.join(" ")), ["order o byName", "billing/account x nap", "billing/rates usd rate", "billing/rates usd note"]);
  assert.deepEqual([host.get("billing/account", "x"), host.get("billing/rates", "usd"), host.get("account", "x")], [1, 1, undefined]);
  assert.equal(host.call(order, "o").byName("shop/item", "insert"), null);
  assert.match(failure(() => host.call(order, "o").byName("rates", "rate")), /called nobody: there is no operator "rates": give it to new Host\(\[…\]\)$/);
  assert.match(failure(() => host.call(order, "o").byName("bank/item", "nap")), /"bank\/item": give it to new Host\(\[…\], { apps: { "bank": \[…\] } }\)$/);
  assert.match(failure(() => host.call(order, "o").byName("billing/rates", "nap")), /operator "billing\/rates" has no function "nap"$/);
});

test("whatever is thrown has a message", () => {
  const host = shop();
  assert.equal(failure(() => host.call(order, "o").throws("nothing")), "ABORTED: undefined");
  assert.equal(failure(() => host.call(order, "o").throws("empty")), 'GUEST_EXCEPTION: order.throws on "o": TypeError: ');
  assert.equal(failure(() => host.call(order, "o").throws("a\u0000b")), "ABORTED: a\ufffdb");
  const long = failure(() => host.call(order, "o").throws("ä".repeat(5000)));
  assert.equal(long.endsWith("ä…"), true);
  assert.equal(new TextEncoder().encode(long.slice("ABORTED: ".length)).length, 4095);
});

test("an error of the app has its code, and a bug says what it is", () => {
  const host = shop();
  const appCode = (how: string) => {
    try {
      host.call(order, "o").refuses(how);
    } catch (error) {
      assert.equal((error as CallFailed).code, "ABORTED");
      return [(error as CallFailed).appCode, (error as CallFailed).message];
    }
    return [];
  };
  assert.deepEqual(appCode("class"), ["SOLD_OUT", "no"]);
  assert.deepEqual(appCode("silent"), ["SOLD_OUT", "SoldOut"]);
  assert.deepEqual(appCode("instance"), ["CLOSED_2", "no"]);
  assert.deepEqual(appCode("none"), [undefined, "no"]);
  assert.deepEqual(appCode("nested"), ["SOLD_OUT", "no"]);
  assert.deepEqual(appCode("reworded"), ["SOLD_OUT", "really no"]);
  host.logs = [];
  assert.match(failure(() => host.call(order, "o").refuses("wrong")), /^GUEST_EXCEPTION: order.refuses on "o": the code "no code" of Abort is not allowed/);
  try {
    host.call(order, "o").isWrong();
    assert.fail("it is wrong");
  } catch (error) {
    const { code, message, cause } = error as CallFailed;
    assert.equal(code, "GUEST_EXCEPTION");
    assert.match(message, /^order.isWrong on "o": TypeError: Cannot read properties of undefined/);
    assert.ok(cause instanceof TypeError && /\/shop\.ts:\d+:\d+/.test(cause.stack!), "the stack leads to the app");
    assert.deepEqual(host.logs.at(-1), { level: "warn", operator: "order", key: "o", message: `${code}: ${message}` });
  }
  host.logs = [];
  const says = 'GUEST_EXCEPTION: item.take was called with arguments that it does not take: item.take misses the argument \'quantity\'';
  assert.equal(failure(() => host.call(order, "o").callsWrongly()), says);
  assert.deepEqual(host.logs.map(({ message }) => message), [says]);
});

test("promises that wait for each other are awaited, others are refused", () => {
  const host = shop();
  assert.equal(host.call(order, "o").slowly([1, 2, 3]), 12);
  assert.equal(host.get(order, "o"), 6);
  assert.match(failure(() => host.call(order, "o").never()), /^ABORTED: it returned a promise that never settles/);
  assert.equal(failure(() => host.call(order, "o").fails()), 'GUEST_EXCEPTION: order.fails on "o": RangeError: after a while');
  assert.equal(failure(() => host.call(order, "o").forgets()), "ABORTED: nobody looked");
  assert.equal(host.call(order, "o").slowly([]), 6);
});

test("read-only functions write nothing", () => {
  const host = shop();
  assert.equal(host.call(item, "pen").left(), "3 pieces");
  assert.equal(host.call(item, "pen").left("pens"), "3 pens");
  assert.equal(failure(() => host.call(item, "pen").spoil()), 'READ_ONLY: item.spoil is declared read-only and wrote "pen"');
});

test("arguments are checked by their types", () => {
  const host: any = shop();
  const refused = (name: string, ...args: unknown[]) => failure(() => host.call(order, "o")[name](...args));
  assert.equal(refused("buy", "pen", "two"), 'BAD_ARGUMENTS: order.buy: quantity must be an integer, not "two"');
  assert.equal(refused("buy", "pen", 1.5), "BAD_ARGUMENTS: order.buy: quantity must be an integer, not 1.5");
  assert.match(refused("buy", "pen", 2n ** 53n), /^BAD_ARGUMENTS: order.buy: quantity must be an integer between .* exactly .*, not 9007199254740992$/);
  assert.equal(refused("buy", "pen"), "BAD_ARGUMENTS: order.buy misses the argument 'quantity'");
  assert.equal(refused("careless", 1), "BAD_ARGUMENTS: order.careless takes no arguments, but 1 were given");
  assert.equal(refused("buyLater", [1]), "BAD_ARGUMENTS: order.buyLater: ids[0] must be a string, not 1");
  const tree = { name: "a", children: [] };
  const shapes = (...args: unknown[]) => refused("shapes", ...["red", tree, ["x"], { a: true }, {}].map((usual, index) => args[index] ?? usual));
  assert.equal(shapes(), "no failure");
  assert.equal(shapes(3, { name: "b", children: [tree] }, ["x", 1], {}, { a: null }), "no failure");
  assert.equal(shapes("green"), 'BAD_ARGUMENTS: order.shapes: choice must be one of "red", "blue", 3, not "green"');
  assert.equal(
    shapes("red", { name: "b", children: [{ name: 1, children: [] }] }),
    "BAD_ARGUMENTS: order.shapes: tree.children[0].name must be a string, not 1",
  );
  assert.equal(shapes("red", tree, []), "BAD_ARGUMENTS: order.shapes: pair must be an array of 1 to 2, not an array");
  assert.equal(shapes("red", tree, ["x"], { a: 1 }), "BAD_ARGUMENTS: order.shapes: names.a must be true or false, not 1");
  assert.match(shapes("red", tree, ["x"], {}, { b: 1 }), /one must be an object without the field "b", not an object$/);
});

test("integers are exact or refused", () => {
  const host: any = shop();
  assert.equal(host.call(order, "o").exact(5, 0.5), "bigint 5 0.5");
  assert.equal(host.call(order, "o").exact(12345678901234567890n, 2), "bigint 12345678901234567890 2");
  const big = { a: [9007199254740993n, -9007199254740993n, 1e21], b: "1234567890123456789\"", c: 0.1234567890123456 };
  assert.deepEqual(host.call(order, "o").keeps(big), { ...big, a: [9007199254740993n, -9007199254740993n, 1e21] });
  assert.equal(host.call(order, "o").keeps(9007199254740991), 9007199254740991);
});

test("what has no JSON form is refused", () => {
  const host = shop();
  const refused = (kind: string) => {
    const text = failure(() => host.call(order, "o").writesWhatHasNoJson(kind));
    const says = 'GUEST_EXCEPTION: order.writesWhatHasNoJson on "o": TypeError: ';
    assert.ok(text.startsWith(says), text);
    return text.slice(says.length);
  };
  assert.equal(refused("nan"), "NaN has no JSON form");
  assert.equal(refused("map"), "a Map has no JSON form: use Object.fromEntries(…)");
  assert.equal(refused("set"), "a Set has no JSON form: use Array.from(…)");
  assert.match(refused("bytes"), /^an array of bytes has no JSON form/);
  assert.match(refused("half"), /half of a surrogate pair/);
  assert.match(refused("nothing"), /^state.put\(undefined\)/);
});

test("JSON comes back as it went", () => {
  const host = shop();
  for (const value of [null, true, 0, -0, [-0, 0], { a: { b: -0 } }, -1.5, "", "ä€😀\u0000\"\\", [], {}, [[null]], { "": { ä: [1, "x".repeat(5000) + "😀"] } }]) {
    assert.deepEqual(host.call(order, "o").keeps(value), value);
    assert.deepEqual(host.get(order, "o"), value);
  }
});

test("random numbers and clocks are the transaction's", () => {
  const [one, other] = [shop(), shop()].map((host) => [host.call(order, "o").chance(), host.call(order, "o").chance()] as any[][]);
  assert.deepEqual(one, other);
  assert.notDeepEqual(one![0], one![1]);
  const [random, own, ...times] = one![0]!;
  assert.ok(random >= 0 && random < 1 && own !== random);
  assert.deepEqual(times, [1_700_000_000_001, 1_700_000_000_001, 1_700_000_000_001, 1_700_000_000_001_000]);
  assert.ok(Date.now() > 1_750_000_000_000, "the test's own clock is what it was");
});

test("a function knows itself, and what it logs is kept", () => {
  const host = shop();
  assert.deepEqual(host.call(order, "o").about(), ["test", "order", "about", "o", 1, "test-1"]);
  assert.deepEqual(host.logs, [{ level: "info", operator: "order", key: "o", message: 'about {"to":"tell"}' }]);
});

test("scans are in the byte order of keys", () => {
  const host = shop();
  for (const key of ["a", "b", "w:1", "w:2", "w:\uffee", "w:😀", "x"]) host.put(order, key, 1);
  const pages = (prefix: string, after: string | null, limit: number, reverse = false) => host.call(order, "o").pages(prefix, after, limit, reverse);
  assert.deepEqual(pages("w:", null, 9), ["w:1", "w:2", "w:\uffee", "w:😀"]);
  assert.deepEqual(pages("w:", "w:2", 1), ["w:\uffee"]);
  assert.deepEqual(pages("", "w:1", 2, true), ["b", "a"]);
  assert.deepEqual(pages("", null, 0), []);
  assert.deepEqual(host.call(order, "o").between("b", "w:2"), ["b", "w:1"]);
  assert.deepEqual(host.call(order, "o").between("b", "w:2", "b"), ["w:1"]);
  assert.deepEqual(host.call(order, "o").between("b", "w:2", "a"), ["b", "w:1"]);
  assert.deepEqual(host.call(order, "o").others("p"), [7, true]);
});
