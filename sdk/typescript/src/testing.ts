/**
 * A host in memory: transactions without a server or WebAssembly.
 *
 * ```ts
 * const host = new Host([item, order]);
 * host.call(item, "pen").insert(5, 10);
 * assert.throws(() => host.call(order, "o1").checkout(), /there is no order o1/);
 * assert.deepEqual(host.get(item, "pen"), [5, 10]);
 * ```
 *
 * Every call is a transaction as a server runs it: all of its writes or none, synchronous calls
 * nested, asynchronous ones after their caller in the order of issue and depth first. Arguments,
 * results and values pass through JSON. While one runs, `Math.random`, `Date` and promises are the
 * transaction's, as in a component; `styx-sdk-test` knows types, so that arguments are checked, too.
 */

import { ABORTED, BAD_ARGUMENTS, CallFailed, GUEST_EXCEPTION, READ_ONLY, UNKNOWN_FUNCTION, type Failure } from "./errors.js";
import { fraction } from "./context.js";
import type { Bound, Imports, KeyRange, Level } from "./imports.js";
import { fromText, refuseBytes, toText } from "./json.js";
import { entriesOf, type Calls, type Entry, type Operator, type Types, type Untyped } from "./operator.js";
import { Jobs, promiseClass } from "./promise.js";
import { describe, makeInvoke, type Description, type Invoke } from "./runtime.js";
import { MIGRATE } from "./stored.js";
import { compareKeys } from "./state.js";

export { CallFailed };

/** A line that a function logged in a transaction that committed. */
export interface LogLine {
  level: Level;
  operator: string;
  key: string;
  message: string;
}

export interface HostOptions {
  /** Name of the app. */
  app?: string;
  /** Of all random numbers. */
  seed?: number;
  /** What is known of types; by default what `styx-sdk-test` found. */
  types?: Types;
  /** Operators of other apps, or what plays their part, by app. They are called `app/operator`, here too. */
  apps?: Record<string, readonly Operator<any>[]>;
}

/** A call: what runs, and what it issued to run afterwards. */
interface Call {
  operator: string;
  key: string;
  function: string;
  /** JSON. */
  args: string;
  isReadOnly: boolean;
  issued: Call[];
  draw: () => number;
}

/** A request: its writes, and why it will have no effect, once that is known. */
interface Transaction {
  tid: number;
  timeUs: number;
  /** By operator and key, null for a deleted one, on top of the committed state. */
  writes: Map<string, string | null>;
  calls: [operator: string, key: string, name: string][];
  logs: LogLine[];
  doom: CallFailed | undefined;
}

const NO_TYPES: Types = { functions: {}, docs: {} };
const START_US = 1_700_000_000_000_000;

/** Runs transactions on operators. */
export class Host {
  /** What ran in the last transaction, in order: operator, key, function. */
  calls: [operator: string, key: string, name: string][] = [];
  /** Log lines of all transactions, also of those that aborted. */
  logs: LogLine[] = [];
  /** When the next transaction will have been sequenced; every transaction moves it on by a millisecond. */
  timeUs = START_US;

  private readonly operators: readonly Operator<any>[];
  private readonly app: string;
  private readonly seed: number;
  private readonly types: Types;
  private readonly table: Map<string, Entry>;
  private readonly invoke: Invoke;
  /** JSON texts. */
  private readonly committed = new Map<string, string>();
  /** What the function that ran last returned. */
  private returned = "null";
  private readonly jobs = new Jobs();
  private readonly promises = promiseClass(this.jobs);
  private tid = 0;
  private transaction: Transaction | undefined;
  private readonly stack: Call[] = [];

  constructor(operators: readonly Operator<any>[], options: HostOptions = {}) {
    this.operators = operators;
    this.app = options.app ?? "test";
    this.seed = options.seed ?? 0;
    this.types = options.types ?? (globalThis as any).styxTypes ?? NO_TYPES;
    this.table = entriesOf(operators, this.types);
    for (const [app, others] of Object.entries(options.apps ?? {})) {
      for (const [name, entry] of entriesOf(others, this.types)) this.table.set(`${app}/${name}`, entry);
    }
    this.invoke = makeInvoke(this.table, {
      imports: this.imports(),
      jobs: this.jobs,
      fail: ({ code, message }: Failure, cause?: unknown) => new CallFailed(message, code, cause === undefined ? undefined : { cause }),
      originOf: () => "",
      returned: (value) => (this.returned = toText(value)),
    });
  }

  /** Runs a transaction: `host.call(item, "pen").take(2)`. Throws `CallFailed` if it aborts. */
  call<F>(operator: Operator<F>, key: string): Calls<F>;
  call<F = Untyped>(operator: string, key: string): F;
  call(operator: any, key: string): any {
    const name = nameOf(operator);
    const get = (_: unknown, called: string | symbol) =>
      typeof called === "string" ? (...args: unknown[]) => this.run(name, key, called, args) : undefined;
    return new Proxy({}, { get });
  }

  /** The committed value of an entity; undefined if there is none. */
  get<T = any>(operator: Operator<any> | string, key: string): T | undefined {
    const text = this.committed.get(entity(nameOf(operator), key));
    return text === undefined ? undefined : fromText(text);
  }

  /** Sets the committed value of an entity. */
  put(operator: Operator<any> | string, key: string, value: unknown): void {
    this.committed.set(entity(nameOf(operator), key), toText(value));
  }

  /** All committed values of an operator by key, in the order of keys. */
  entries<T = any>(operator: Operator<any> | string): [key: string, value: T][] {
    return entriesIn(this.committed, nameOf(operator)).map(([key, text]) => [key, fromText(text)]);
  }

  /** What a component of these operators tells a server. */
  describe(): Description {
    return describe(this.operators, this.types);
  }

  private run(operator: string, key: string, name: string, args: unknown[]): unknown {
    if (this.transaction !== undefined) throw new Error("a transaction is running: functions call each other with ctx.call");
    const transaction: Transaction = { tid: this.tid++, timeUs: this.timeUs, writes: new Map(), calls: [], logs: [], doom: undefined };
    this.transaction = transaction;
    this.timeUs += 1000;
    let result;
    const restore = this.patch(transaction);
    try {
      while (args.length > 0 && args.at(-1) === undefined) args.pop();
      result = this.runAll(this.resolve(operator, key, name, toText(args), false));
    } finally {
      restore();
      this.transaction = undefined;
      this.stack.length = 0;
      this.calls = transaction.calls;
      this.logs.push(...transaction.logs);
    }
    for (const [entity, value] of transaction.writes) {
      if (value === null) this.committed.delete(entity);
      else this.committed.set(entity, value);
    }
    return fromText(result);
  }

  /** An operator as it is known here: with its app, if that is another one. */
  private qualified(operator: string): string {
    const [app, name] = operator.includes("/") ? split(operator) : [this.runningApp, operator];
    return app === this.app ? name : `${app}/${name}`;
  }

  private get runningApp(): string {
    const operator = this.stack.at(-1)?.operator;
    return operator?.includes("/") ? split(operator)[0] : this.app;
  }

  private resolve(called: string, key: string, name: string, args: string, isReadOnly: boolean): Call {
    const operator = this.qualified(called);
    // What the host does to entities no function does.
    const entry = name === MIGRATE && this.stack.length > 0 ? undefined : this.table.get(`${operator}.${name}`);
    if (entry === undefined) {
      const isKnown = [...this.table.keys()].some((each) => each.startsWith(`${operator}.`));
      const where = operator.includes("/") ? `new Host([…], { apps: { "${split(operator)[0]}": […] } })` : "new Host([…])";
      const message = isKnown ? `operator "${operator}" has no function "${name}"` : `there is no operator "${operator}": give it to ${where}`;
      const caller = this.stack.at(-1);
      if (caller === undefined) throw this.dooms(isKnown ? UNKNOWN_FUNCTION : "UNKNOWN_OPERATOR", message);
      const bug = new CallFailed(`${caller.operator}.${caller.function} called nobody: ${message}`, GUEST_EXCEPTION);
      this.note(bug);
      throw this.dooms(bug.code, bug.message);
    }
    if (isReadOnly && !entry.readOnly) {
      const { operator, function: name } = this.top;
      throw this.dooms(READ_ONLY, `${operator}.${name} is declared read-only and called ${entry.qualified}, which is not`);
    }
    return { operator, key, function: name, args, isReadOnly: isReadOnly || entry.readOnly, issued: [], draw: () => 0 };
  }

  /** A call and, after it, what it issued: in order, depth first. */
  private runAll(call: Call): string {
    const result = this.runOne(call);
    for (const issued of call.issued) this.runAll(issued);
    return result;
  }

  private runOne(call: Call): string {
    const transaction = this.transaction!;
    if (transaction.doom !== undefined) throw transaction.doom;
    call.draw = generator(this.seed, transaction.tid, transaction.calls.length);
    transaction.calls.push([call.operator, call.key, call.function]);
    this.stack.push(call);
    let result;
    try {
      this.invoke(`${call.operator}.${call.function}`, call.key, fromText(call.args));
      result = this.returned;
    } catch (thrown) {
      if (!(thrown instanceof CallFailed)) throw thrown;
      const failure = this.ownFault(thrown);
      // Whoever fails last may have said more.
      const doom = this.transaction!.doom;
      const isMore = doom === undefined || (doom.code === ABORTED && failure.code === ABORTED);
      const keeps = isMore && doom?.appCode !== undefined && failure.appCode === undefined;
      transaction.doom = keeps ? new CallFailed(failure.message, doom.fullCode, { cause: failure.cause }) : isMore ? failure : doom;
      throw transaction.doom;
    } finally {
      this.stack.pop();
    }
    // A function that catches a failure cannot save the transaction.
    if (transaction.doom !== undefined) throw transaction.doom;
    return result;
  }

  /** How a server tells it: what a function passes to another is never the client's fault, and bugs are logged. */
  private ownFault(failure: CallFailed): CallFailed {
    if (this.transaction!.doom !== undefined || failure.cause instanceof CallFailed) return failure;
    const { operator, function: name, key } = this.top;
    let message;
    if (failure.code === BAD_ARGUMENTS && this.stack.length > 1) {
      message = `${operator}.${name} was called with arguments that it does not take: ${failure.message}`;
    } else if (failure.code === GUEST_EXCEPTION) {
      message = `${operator}.${name} on "${key}": ${failure.message}`;
    } else {
      return failure;
    }
    const bug = new CallFailed(message, GUEST_EXCEPTION, { cause: failure.cause });
    this.note(bug);
    return bug;
  }

  private note({ code, message }: CallFailed): void {
    const { operator, key } = this.top;
    this.transaction!.logs.push({ level: "warn", operator, key, message: `${code}: ${message}` });
  }

  private dooms(code: string, message: string): CallFailed {
    const failure = new CallFailed(message, code);
    if (this.transaction !== undefined) this.transaction.doom ??= failure;
    return failure;
  }

  private get top(): Call {
    const call = this.stack.at(-1);
    if (call === undefined) throw new Error("the context was used after its function had returned");
    return call;
  }

  private imports(): Imports {
    const write = (key: string, value: string | null) => {
      const { operator, function: name, isReadOnly } = this.top;
      if (isReadOnly) throw this.dooms(READ_ONLY, `${operator}.${name} is declared read-only and wrote "${key}"`);
      this.transaction!.writes.set(entity(operator, key), value);
    };
    const read = (key: string) => {
      const at = entity(this.top.operator, key);
      const written = this.transaction!.writes.get(at);
      const text = written !== undefined ? written : (this.committed.get(at) ?? null);
      return text === null ? undefined : fromText(text);
    };
    return {
      getOwn: () => read(this.top.key),
      putOwn: (value) => write(this.top.key, toText(value)),
      deleteOwn: () => write(this.top.key, null),
      get: read,
      put: (key, value) => write(key, toText(value)),
      delete: (key) => write(key, null),
      scan: (range, limit, reverse) => {
        const merged = new Map<string, string | null>([...this.committed, ...this.transaction!.writes]);
        const found = entriesIn(merged, this.top.operator).filter(([key]) => isWithin(key, range));
        if (reverse) found.reverse();
        return (limit === 0 ? found : found.slice(0, limit)).map(([key, text]) => [key, fromText(text)]);
      },
      call: (operator, key, name, args) => fromText(this.runAll(this.resolve(operator, key, name, toText(args), this.top.isReadOnly))),
      callAsync: (operator, key, name, args) => {
        this.top.issued.push(this.resolve(operator, key, name, toText(args), this.top.isReadOnly));
      },
      app: () => this.runningApp,
      tid: () => this.transaction!.tid,
      requestId: () => `test-${this.transaction!.tid}`,
      time: () => this.transaction!.timeUs,
      random: () => this.top.draw(),
      log: (level, message) => {
        const { operator, key } = this.top;
        this.transaction!.logs.push({ level, operator, key, message });
      },
    };
  }

  /** Lets what the language offers depend on the running transaction alone, as in a component. */
  private patch(transaction: Transaction): () => void {
    const scope: any = globalThis;
    const { Date: SystemDate, Promise: SystemPromise, queueMicrotask } = scope;
    const { random } = Math;
    const toJSON = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), "toJSON");
    const now = () => Math.floor(transaction.timeUs / 1000);
    scope.Date = new Proxy(SystemDate, {
      construct: (target, args, made) => Reflect.construct(target, args.length === 0 ? [now()] : args, made),
      apply: () => new SystemDate(now()).toString(),
      get: (target, name) => (name === "now" ? now : Reflect.get(target, name)),
    });
    scope.Promise = this.promises;
    scope.queueMicrotask = (run: () => void) => this.jobs.add(run);
    Math.random = () => fraction(this.top.draw());
    refuseBytes();
    return () => {
      Object.assign(scope, { Date: SystemDate, Promise: SystemPromise, queueMicrotask });
      Math.random = random;
      const prototype = Object.getPrototypeOf(Uint8Array.prototype);
      if (toJSON === undefined) delete prototype.toJSON;
      else Object.defineProperty(prototype, "toJSON", toJSON);
    };
  }
}

function split(operator: string): [app: string, name: string] {
  const at = operator.indexOf("/");
  return [operator.slice(0, at), operator.slice(at + 1)];
}

function nameOf(operator: Operator<any> | string): string {
  return typeof operator === "string" ? operator : operator.name;
}

/** A name has no space, so what stands before the first one is the operator. */
function entity(operator: string, key: string): string {
  return `${operator} ${key}`;
}

function entriesIn(state: Map<string, string | null>, operator: string): [string, string][] {
  const found: [string, string][] = [];
  for (const [at, value] of state) {
    if (value !== null && at.startsWith(`${operator} `)) found.push([at.slice(operator.length + 1), value]);
  }
  return found.sort(([one], [other]) => compareKeys(one, other));
}

function isWithin(key: string, { prefix, lower, upper }: KeyRange): boolean {
  const isAbove = (bound: Bound) => bound.tag === "unbounded" || compareKeys(key, bound.val) > 0 || (bound.tag === "included" && key === bound.val);
  const isBelow = (bound: Bound) => bound.tag === "unbounded" || compareKeys(key, bound.val) < 0 || (bound.tag === "included" && key === bound.val);
  return key.startsWith(prefix) && isAbove(lower) && isBelow(upper);
}

/** 64 random bits at a time, as the host's come in: SplitMix64. */
function generator(seed: number, tid: number, ordinal: number): () => number {
  let state = BigInt(seed) ^ (BigInt(tid) << 20n) ^ BigInt(ordinal);
  const next = () => {
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n);
    let mixed = state;
    mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
    mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
    return Number(mixed ^ (mixed >> 31n));
  };
  // Neighbouring calls begin far from each other.
  state = BigInt(Math.floor(next()));
  return next;
}
