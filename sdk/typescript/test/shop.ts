/** Operators for the tests. */

import { Abort, operator, readOnly, type Context, type int, type Json } from "styx-sdk";

interface Item {
  stock: int;
  price: int;
}

/** Things on the shelf. */
export const item = operator("item", {
  /** Sets what there is. */
  insert(ctx: Context<Item>, stock: int, price: int = 1) {
    ctx.state.put({ stock, price });
  },
  /** Takes some: returns what they cost. */
  take(ctx: Context<Item>, quantity: int): int {
    const shelf = ctx.state.get();
    if (shelf === undefined) throw new Error(`there is no ${ctx.key}`);
    if (shelf.stock < quantity) throw new Error(`not enough ${ctx.key}`);
    ctx.state.put({ ...shelf, stock: shelf.stock - quantity });
    return quantity * shelf.price;
  },
  left: readOnly((ctx, unit?: string): string => `${ctx.state.get()?.stock ?? 0} ${unit ?? "pieces"}`),
  spoil: readOnly((ctx) => {
    (ctx as Context).state.put(0);
  }),
});

class SoldOut extends Abort {
  override code = "SOLD_OUT";
}

interface Refuses {
  refuses(how: string): void;
}

type Choice = "red" | "blue" | 3;
interface Tree {
  name: string;
  children: Tree[];
}

export const order = operator("order", {
  buy(ctx, id: string, quantity: int): int {
    const cost = ctx.call(item, id).take(quantity);
    ctx.state.put((ctx.state.get() ?? 0) + cost);
    return cost;
  },
  buyLater(ctx, ids: string[]): void {
    for (const id of ids) ctx.callAsync(item, id).take(1);
    ctx.state.put(ids.length);
  },
  careless(ctx): string {
    try {
      ctx.call(item, "nothing").take(1);
    } catch {
      // It cannot be saved.
    }
    return "saved";
  },
  telling(ctx): void {
    try {
      ctx.call(item, "nothing").take(1);
    } catch (error) {
      throw new Error(`no order without it: ${(error as Error).message}`);
    }
  },
  byName(ctx, operator: string, name: string): unknown {
    return ctx.call(operator, "x")[name]!(1);
  },
  async slowly(ctx, values: int[]): Promise<int> {
    let total = 0;
    for (const value of values) total += await Promise.resolve(value);
    const [one, other] = await Promise.all([double(1), double(2)]);
    ctx.state.put(total);
    return total + one + other;
  },
  async never(): Promise<void> {
    await new Promise(() => undefined);
  },
  async fails(): Promise<void> {
    await null;
    throw new RangeError("after a while");
  },
  refuses(ctx, how: string): void {
    ctx.state.put("written");
    if (how === "class") throw new SoldOut("no");
    if (how === "silent") throw new SoldOut();
    if (how === "instance") throw new Abort("no", "CLOSED_2");
    if (how === "none") throw new Abort("no");
    if (how === "wrong") throw new Abort("no", "no code");
    try {
      ctx.call<Refuses>("order", "inner").refuses("class");
    } catch (error) {
      throw how === "nested" ? error : new Error(`really ${(error as Error).message}`);
    }
  },
  isWrong(ctx): number {
    return (ctx.state.get() as any).absent;
  },
  callsWrongly(ctx): void {
    ctx.call<{ take(): void }>("item", "pen").take();
  },
  forgets(): void {
    void Promise.reject(new Error("nobody looked"));
  },
  throws(_ctx, what: string): void {
    if (what === "nothing") throw undefined;
    if (what === "empty") throw new TypeError();
    throw what;
  },
  keeps(ctx, value: Json): Json {
    ctx.state.put(value);
    return ctx.state.get();
  },
  exact(_ctx, amount: bigint, approximate: number): string {
    return `${typeof amount} ${amount} ${approximate}`;
  },
  shapes(_ctx, choice: Choice, tree: Tree, pair: [string, int?], names: Record<string, boolean>, one: { a?: string | null }): int {
    return [choice, tree, pair, names, one].length;
  },
  writesWhatHasNoJson(ctx, kind: string): void {
    const values: Record<string, unknown> = { nan: { a: NaN }, map: new Map([[1, 2]]), set: [new Set()], bytes: { b: new Uint8Array(2) }, half: "\ud800", nothing: undefined };
    ctx.state.put(values[kind]);
  },
  chance(ctx): unknown[] {
    return [Math.random(), ctx.random(), Date.now(), new Date().getTime(), ctx.time.getTime(), ctx.timeUs];
  },
  about(ctx): unknown[] {
    ctx.log.info("about", { to: "tell" });
    return [ctx.app, ctx.operator, ctx.function, ctx.key, ctx.tid, ctx.requestId];
  },
  pages(ctx, prefix: string, after: string | null, limit: int, reverse: boolean): string[] {
    return ctx.state.scan({ prefix, after, limit, reverse }).map(([key]) => key);
  },
  between(ctx, start: string, end: string, after?: string): string[] {
    return ctx.state.scan({ start, end, after }).map(([key]) => key);
  },
  others(ctx, key: string): unknown[] {
    ctx.state.put(7, key);
    const seen = ctx.state.get(key);
    ctx.state.delete(key);
    return [seen, ctx.state.get(key) === undefined];
  },
});

async function double(value: int): Promise<int> {
  await null;
  return value * 2;
}
