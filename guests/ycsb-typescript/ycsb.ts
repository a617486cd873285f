/**
 * YCSB-T (Styx, section 9.1): accounts, and transfers between two of them; and the records of its migrations,
 * which are larger.
 *
 * The state of an account is its balance, a plain number. The Rust guest of the same workload has the same
 * names and gives the same replies.
 */

import { operator, readOnly, type Context, type int, type ReadContext } from "styx-sdk";

/** Accounts with a balance. */
export const account = operator("account", {
  insert,
  read: readOnly(load),
  update,
  credit,

  /** Moves one to another account and returns the own balance; throws if that would be negative. */
  transfer(ctx: Context<int>, to: string): int {
    return transfer(ctx, to, () => ctx.call(account, to).credit());
  },

  /** The same with an asynchronous call, which runs when this function has returned. */
  transfer_async(ctx: Context<int>, to: string): int {
    return transfer(ctx, to, () => ctx.callAsync(account, to).credit());
  },

  /** A page of all accounts: [accounts, sum of their balances, last key of the page or null]. */
  sum: readOnly((ctx: ReadContext<int>, after: string | null, limit: int): [int, int, string | null] => {
    return sum(ctx, "", after, limit);
  }),
});

/** Accounts of a group. */
export const member = operator(
  "member",
  {
    insert,
    read: readOnly(load),
    update,
    credit,

    /** Moves one to another member and returns the own balance; throws if that would be negative. */
    transfer(ctx: Context<int>, to: string): int {
      return transfer(ctx, to, () => ctx.call(member, to).credit());
    },

    /** A page of the group: [accounts, sum of their balances, last key of the page or null]. */
    sum: readOnly((ctx: ReadContext<int>, after: string | null, limit: int): [int, int, string | null] => {
      return sum(ctx, `${ctx.key.split(":", 1)[0]}:`, after, limit);
    }),
  },
  { keyPrefix: "group" },
);

/** Opens the account, or sets its balance. */
function insert(ctx: Context<int>, balance: int): void {
  ctx.state.put(balance);
}

/** The balance. */
function load(ctx: ReadContext<int>): int {
  const balance = ctx.state.get();
  if (balance === undefined) throw new Error(`there is no account ${ctx.key}`);
  return balance;
}

/** Adds one and returns the balance. */
function update(ctx: Context<int>): int {
  const balance = load(ctx) + 1;
  if (!Number.isSafeInteger(balance)) throw new Error(`account ${ctx.key} is full`);
  ctx.state.put(balance);
  return balance;
}

/** Adds one; the other half of a transfer. */
function credit(ctx: Context<int>): void {
  update(ctx);
}

function transfer(ctx: Context<int>, to: string, credit: () => void): int {
  if (to === ctx.key) throw new Error("a transfer needs two accounts");
  const balance = load(ctx);
  credit();
  if (balance < 1) throw new Error(`account ${ctx.key} has nothing left`);
  ctx.state.put(balance - 1);
  return balance - 1;
}

function sum(ctx: ReadContext<int>, prefix: string, after: string | null, limit: int): [int, int, string | null] {
  const [page, following] = pageOf(ctx, prefix, after, limit);
  return [page.length, page.reduce((total, balance) => total + balance, 0), following];
}

/** Records of fields. */
export const record = operator("record", {
  /** Adds the record, or replaces it. */
  insert(ctx: Context<string[]>, fields: string[]): void {
    ctx.state.put(fields);
  },

  /** All fields. */
  read: readOnly((ctx: ReadContext<string[]>): string[] => fieldsOf(ctx)),

  /** Replaces a field. */
  update(ctx: Context<string[]>, field: int, value: string): void {
    const fields = fieldsOf(ctx);
    if (fields[field] === undefined) throw new Error(`record ${ctx.key} has no field ${field}`);
    fields[field] = value;
    ctx.state.put(fields);
  },

  /** A page of all records: [records, bytes of their fields, last key of the page or null]. */
  count: readOnly((ctx: ReadContext<string[]>, after: string | null, limit: int): [int, int, string | null] => {
    const [page, following] = pageOf(ctx, "", after, limit);
    const text = new TextEncoder();
    const bytes = page.flat().reduce((total, field) => total + text.encode(field).length, 0);
    return [page.length, bytes, following];
  }),
});

function fieldsOf(ctx: ReadContext<string[]>): string[] {
  const fields = ctx.state.get();
  if (fields === undefined) throw new Error(`there is no record ${ctx.key}`);
  return fields;
}

/** Values; and the last key, with which the next page begins, if this one is full. */
function pageOf<S>(ctx: ReadContext<S>, prefix: string, after: string | null, limit: int): [S[], string | null] {
  const entries = ctx.state.scan({ prefix, after, limit });
  const last = entries.length === limit ? entries.at(-1) : undefined;
  return [entries.map(([, value]) => value), last?.[0] ?? null];
}
