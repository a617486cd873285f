/** Accounts, and money that goes from one to another. */

import { Abort, operator, readOnly, type Context, type int } from "styx-sdk";

/** Clients get the code as `app_code`. */
export class InsufficientFunds extends Abort {
  override code = "INSUFFICIENT_FUNDS";
}

interface Account {
  deposit(amount: int): int;
}

/** Accounts by their owner; the value is the balance. */
export const account = operator("account", {
  /** Adds to the balance, and returns it. */
  deposit(ctx: Context<int>, amount: int): int {
    if (amount <= 0) throw new Error("an amount is positive"); // aborts the whole transaction
    const balance = (ctx.state.get() ?? 0) + amount;
    ctx.state.put(balance);
    return balance;
  },
  /** Moves money to another account: both change, or neither. */
  transfer(ctx: Context<int>, to: string, amount: int): int {
    ctx.call<Account>("account", to).deposit(amount);
    const balance = (ctx.state.get() ?? 0) - amount;
    if (balance < 0) throw new InsufficientFunds(`${ctx.key} is short of ${-balance}`);
    ctx.state.put(balance);
    return balance;
  },
  /** What is there. */
  balance: readOnly((ctx): int => ctx.state.get() ?? 0),
});
