/**
 * A shopping cart whose checkout is one transaction (Styx, Figure 3): stock of every item and credit of
 * the user, or nothing of it.
 *
 * An order stays as it is when it was checked out and may be checked out again, so that a benchmark never
 * runs out of orders before stock or credit does. The Rust guest of the same workload has the same names
 * and gives the same replies.
 */

import { operator, readOnly, type Context, type int, type ReadContext } from "styx-sdk";

/** How many there are and what one costs. */
type Shelf = [stock: int, price: int];

/** Item, quantity, price of one. */
type Line = [item: string, quantity: int, price: int];

interface Cart {
  user: string;
  lines: Line[];
  checkouts: int;
}

/** Customers and their credit, by user id. */
export const user = operator("user", {
  /** Registers a customer, or sets the credit. */
  insert(ctx: Context<int>, credit: int): void {
    ctx.state.put(credit);
  },

  /** Takes from the credit; throws if it would become negative. */
  pay(ctx: Context<int>, amount: int): void {
    const credit = ctx.state.get();
    if (credit === undefined) throw new Error(`there is no user ${ctx.key}`);
    if (credit < amount) throw new Error(`user ${ctx.key} has a credit of ${credit}, but ${amount} is due`);
    ctx.state.put(credit - amount);
  },

  /** A page of all users: [users, sum of their credit, last key of the page or null]. */
  audit: readOnly((ctx: ReadContext<int>, after: string | null, limit: int): [int, int, string | null] => {
    const [page, following] = pageOf(ctx, after, limit);
    return [page.length, sum(page, (credit) => credit), following];
  }),
});

/** Items in stock, by item id. */
export const item = operator("item", {
  /** Sets how many there are and what one costs. */
  insert(ctx: Context<Shelf>, stock: int, price: int): void {
    ctx.state.put([stock, price]);
  },

  /** Takes so many; throws if there are not enough. */
  take(ctx: Context<Shelf>, quantity: int): void {
    const shelf = ctx.state.get();
    if (shelf === undefined) throw new Error(`there is no item ${ctx.key}`);
    const [stock, price] = shelf;
    if (stock < quantity) throw new Error(`not enough of item ${ctx.key}`);
    ctx.state.put([stock - quantity, price]);
  },

  /** A page of all items: [items, pieces in stock, what all of them cost, last key of the page or null]. */
  audit: readOnly((ctx: ReadContext<Shelf>, after: string | null, limit: int): [int, int, int, string | null] => {
    const [page, following] = pageOf(ctx, after, limit);
    return [page.length, sum(page, ([stock]) => stock), sum(page, ([stock, price]) => stock * price), following];
  }),
});

/** Carts, by order id. */
export const order = operator("order", {
  /** Fills a cart for a user with lines [item, quantity, price of one]. */
  insert(ctx: Context<Cart>, user: string, lines: Line[]): void {
    ctx.state.put({ user, lines, checkouts: 0 });
  },

  /** Takes every item out of stock and has the user pay: returns the price, or throws if anything would become negative. */
  checkout(ctx: Context<Cart>): int {
    const cart = ctx.state.get();
    if (cart === undefined) throw new Error(`there is no order ${ctx.key}`);
    for (const [id, quantity] of cart.lines) ctx.callAsync(item, id).take(quantity);
    const total = totalOf(cart);
    ctx.callAsync(user, cart.user).pay(total);
    cart.checkouts += 1;
    ctx.state.put(cart);
    return total;
  },

  /** A page of all orders: [orders, checkouts, pieces that were bought, what was paid, last key of the page or null]. */
  audit: readOnly((ctx: ReadContext<Cart>, after: string | null, limit: int): [int, int, int, int, string | null] => {
    const [page, following] = pageOf(ctx, after, limit);
    const checkouts = sum(page, (cart) => cart.checkouts);
    const pieces = sum(page, (cart) => cart.checkouts * sum(cart.lines, ([, quantity]) => quantity));
    const paid = sum(page, (cart) => cart.checkouts * totalOf(cart));
    return [page.length, checkouts, pieces, paid, following];
  }),
});

function totalOf(cart: Cart): int {
  return sum(cart.lines, ([, quantity, price]) => quantity * price);
}

function sum<T>(values: T[], figure: (value: T) => number): number {
  return values.reduce((total, value) => total + figure(value), 0);
}

/** Values; and the last key, with which the next page begins, if this one is full. */
function pageOf<S>(ctx: ReadContext<S>, after: string | null, limit: int): [S[], string | null] {
  const entries = ctx.state.scan({ after, limit });
  const last = entries.length === limit ? entries.at(-1) : undefined;
  return [entries.map(([, value]) => value), last?.[0] ?? null];
}
