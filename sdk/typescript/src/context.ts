/** `Context`: what a function gets as its first argument. */

import { CallFailed, safeText } from "./errors.js";
import type { Imports, Level } from "./imports.js";
import type { AsyncCalls, Calls, Entry, Operator, Untyped } from "./operator.js";
import { State, type ReadState } from "./state.js";

const LINE_BYTES_MAX = 16 << 10;

/** Log lines, which appear once, for the attempt that counted. `console` writes there, too. */
export class Log {
  /** @internal */
  constructor(private readonly imports: Imports) {}

  debug(...values: unknown[]): void {
    this.write("debug", values);
  }

  info(...values: unknown[]): void {
    this.write("info", values);
  }

  warn(...values: unknown[]): void {
    this.write("warn", values);
  }

  error(...values: unknown[]): void {
    this.write("error", values);
  }

  private write(level: Level, values: unknown[]): void {
    this.imports.log(level, safeText(values.map(shown).join(" "), LINE_BYTES_MAX));
  }
}

function shown(value: unknown): string {
  if (typeof value === "string") return value;
  if (value instanceof Error) return value.stack?.includes(value.message) ? value.stack : `${value.name}: ${value.message}`;
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value, (_, member) => (typeof member === "bigint" ? String(member) : member)) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}

/** What all invocations share: made once for a component or a test host. */
export class Shared {
  readonly state: State<any>;
  readonly log: Log;
  /** Classes with a method for every function of an operator. */
  readonly callers = new WeakMap<object, Callers>();
  private readonly typed = new Map<Entry, State<any>>();

  constructor(readonly imports: Imports) {
    this.state = new State(imports);
    this.log = new Log(imports);
  }

  /** What a function reads and writes by. */
  stateOf(entry: Entry): State<any> {
    if (entry.stored === undefined) return this.state;
    let state = this.typed.get(entry);
    if (state === undefined) this.typed.set(entry, (state = new State(this.imports, entry.stored, !entry.readOnly)));
    return state;
  }
}

interface Callers {
  call: new (key: string) => any;
  callAsync: new (key: string) => any;
}

/** Functions that are called by name, for calls whose results nobody gets. */
export type AsyncCallsByName<F> = { [N in keyof F]: F[N] extends (...args: infer A) => unknown ? (...args: A) => void : never };

/** What a read-only function may do. */
export interface ReadContext<S = any> {
  /** Key of the invoked entity. */
  readonly key: string;
  /** Name of the invoked entity's operator. */
  readonly operator: string;
  /** Name of the running function. */
  readonly function: string;
  /** Name of the app. */
  readonly app: string;
  /** Transaction id: the transaction's rank in the sequence. */
  readonly tid: number;
  /** Id of the request, as the client knows it. */
  readonly requestId: string;
  /** When the transaction was sequenced. */
  readonly time: Date;
  /** The same in microseconds since 1970. */
  readonly timeUs: number;
  /** The entities of this operator. */
  readonly state: ReadState<S>;
  readonly log: Log;
  /** The next number of this invocation's generator: at least 0, less than 1. `Math.random` is the same. */
  random(): number;
  /**
   * Runs a function on another entity, in this transaction, and returns its result:
   * `ctx.call(item, id).take(3)`. An operator of another component is given by name, its functions
   * perhaps as a type: `ctx.call<Stock>("stock", id).take(3)`; one of another app as `app/operator`.
   * A failure throws `CallFailed` and aborts the transaction.
   */
  call<F>(operator: Operator<F>, key: string): Calls<F>;
  call<F = Untyped>(operator: string, key: string): F;
}

/** The running invocation: its entity, its transaction and its way to the others. `S` is the type of the state. */
export class Context<S = any> implements ReadContext<S> {
  // One is made for each invocation: a field that is only assigned costs a third of one that is defined first.
  declare readonly key: string;
  declare readonly state: State<S>;
  declare private readonly shared: Shared;
  declare private readonly entry: Entry;

  /** @internal */
  constructor(key: string, shared: Shared, entry: Entry) {
    this.key = key;
    this.shared = shared;
    this.entry = entry;
    this.state = entry.stored === undefined ? shared.state : shared.stateOf(entry);
  }

  get operator(): string {
    return this.entry.operator;
  }

  get function(): string {
    return this.entry.name;
  }

  get app(): string {
    return this.shared.imports.app();
  }

  get tid(): number {
    return this.shared.imports.tid();
  }

  get requestId(): string {
    return this.shared.imports.requestId();
  }

  get time(): Date {
    return new Date(Math.floor(this.timeUs / 1000));
  }

  get timeUs(): number {
    return this.shared.imports.time();
  }

  get log(): Log {
    return this.shared.log;
  }

  random(): number {
    return fraction(this.shared.imports.random());
  }

  call<F>(operator: Operator<F>, key: string): Calls<F>;
  call<F = Untyped>(operator: string, key: string): F;
  call(operator: any, key: string): any {
    return caller(this.shared, operator, "call", key);
  }

  /**
   * Has a function run on another entity after this one has returned, in this transaction:
   * `ctx.callAsync(item, id).take(3)`. Calls run in the order of issue, depth first. The result is
   * dropped; a failure aborts the transaction.
   */
  callAsync<F>(operator: Operator<F>, key: string): AsyncCalls<F>;
  callAsync<F = Untyped>(operator: string, key: string): AsyncCallsByName<F>;
  callAsync(operator: any, key: string): any {
    return caller(this.shared, operator, "callAsync", key);
  }
}

/** 53 of 64 random bits as a number from 0 to 1; the host's integer has been rounded already, perhaps up. */
export function fraction(random: number): number {
  return Math.min(Math.floor(random / 2048), 2 ** 53 - 1) / 2 ** 53;
}

function caller(shared: Shared, operator: Operator<any> | string, kind: keyof Callers, key: string): any {
  if (typeof key !== "string") throw new TypeError(`a key must be a string, not ${typeof key}: use String(…)`);
  if (typeof operator === "string") return byName(shared.imports, operator, kind, key);
  let callers = shared.callers.get(operator);
  if (callers === undefined) {
    const names = Object.keys(operator.functions);
    const made = (kind: keyof Callers) => callerClass(shared.imports, operator.name, names, kind);
    callers = { call: made("call"), callAsync: made("callAsync") };
    shared.callers.set(operator, callers);
  }
  return new callers[kind](key);
}

function callerClass(imports: Imports, operator: string, names: string[], kind: keyof Callers): new (key: string) => any {
  class Caller {
    declare styxKey: string;

    constructor(key: string) {
      this.styxKey = key;
    }
  }
  for (const name of names) {
    (Caller.prototype as any)[name] = function (this: Caller, ...args: unknown[]) {
      return invoke(imports, kind, operator, this.styxKey, name, args);
    };
  }
  return Caller;
}

function byName(imports: Imports, operator: string, kind: keyof Callers, key: string): Untyped {
  const get = (_: unknown, name: string | symbol) =>
    typeof name === "string" ? (...args: unknown[]) => invoke(imports, kind, operator, key, name, args) : undefined;
  return new Proxy<Untyped>({}, { get });
}

function invoke(imports: Imports, kind: keyof Callers, operator: string, key: string, name: string, args: unknown[]): any {
  // What was left out at the end is left to the callee's defaults.
  let count = args.length;
  while (count > 0 && args[count - 1] === undefined) count--;
  const given = count === args.length ? args : args.slice(0, count);
  if (kind === "callAsync") return imports.callAsync(operator, key, name, given);
  try {
    return imports.call(operator, key, name, given);
  } catch (thrown: any) {
    if (typeof thrown?.code !== "string" || thrown instanceof Error) throw thrown;
    throw new CallFailed(String(thrown.message), thrown.code);
  }
}
