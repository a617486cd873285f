/** Trams, by day. */

import { Abort, operator, type Context, type int } from "styx-sdk";

interface Leg {
  free: int;
  price: int;
}

/** A leg, whoever sells it. */
interface Next {
  book(seats: int, onward: string[]): int;
}

export const tram = operator("tram", {
  create(ctx: Context<Leg>, free: int, price: int): void {
    ctx.state.put({ free, price });
  },

  /** Books seats here and on the legs after it: what all of them cost. */
  book(ctx: Context<Leg>, seats: int, onward: string[]): int {
    const leg = ctx.state.get();
    if (leg === undefined) throw new Error(`no tram runs on ${ctx.key}`);
    if (leg.free < seats) throw new Abort(`the tram on ${ctx.key} is full`, "FULL");
    ctx.state.put({ ...leg, free: leg.free - seats });
    const [next, ...rest] = onward;
    const more = next === undefined ? 0 : ctx.call<Next>(next, ctx.key).book(seats, rest);
    return seats * leg.price + more;
  },
});
