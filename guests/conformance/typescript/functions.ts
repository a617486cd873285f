/** What every language does, in TypeScript. */

import { Abort, operator, readOnly, type Context, type Json } from "styx-sdk";

interface Other {
  through(languages: string[], n: bigint): bigint;
  add(n: bigint): bigint;
}

export const own = operator("typescript", {
  echo_int: (_ctx: Context, n: bigint): bigint => n,
  echo_text: (_ctx: Context, text: string): string => text,
  echo_list: (_ctx: Context, numbers: bigint[]): bigint[] => numbers,
  echo_any: (_ctx: Context, value: Json): Json => value,
  echo_number: (_ctx: Context, x: number): number => x,
  no_number: (_ctx: Context, x: number): number => (x > 1 ? x * 1e308 : NaN),
  /** Stores a number, or what is none for more than 1, and says of what it reads then whether it is below zero, or -0. */
  kept_sign(ctx: Context, x: number): boolean {
    ctx.state.put(x > 1 ? NaN : x);
    const kept = ctx.state.get() as number;
    ctx.state.delete();
    return kept < 0 || Object.is(kept, -0);
  },
  get: readOnly((ctx): number | null => ctx.state.get() ?? null),
  add(ctx: Context, n: bigint): bigint {
    const total = BigInt(ctx.state.get() ?? 0) + n;
    ctx.state.put(total);
    return total;
  },
  remove(ctx: Context): void {
    ctx.state.delete();
  },
  keys: readOnly((ctx, prefix: string, limit: number, reverse: boolean): string[] =>
    [...ctx.state.scan({ prefix, reverse, ...(limit > 0 ? { limit } : {}) })].map(([key]) => key),
  ),
  refuse(_ctx: Context, code: string, message: string): void {
    throw new Abort(message, code);
  },
  write_and_refuse(ctx: Context): void {
    ctx.state.put(99);
    throw new Error("after writing");
  },
  /** Adds here, then in each of the languages, one calling the next: the sum of what they come to. */
  through(ctx: Context, languages: string[], n: bigint): bigint {
    const total = BigInt(ctx.state.get() ?? 0) + n;
    let below = 0n;
    const [next, ...rest] = languages;
    if (next !== undefined) {
      below = BigInt(ctx.call<Other>(next, ctx.key).through(rest, n));
      ctx.callAsync<Other>(next, "later").add(n);
    }
    ctx.state.put(total);
    return below + total;
  },
});
