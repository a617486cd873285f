/** Operators and their functions: what a project declares. */

import { DefinitionError, Rejected } from "./errors.js";
import { checkOf, Mismatch, type Check, type Schema } from "./shape.js";
import { MIGRATE, Stored } from "./stored.js";
import type { Context, ReadContext } from "./context.js";

/** Functions of an operator by name. The first parameter is the context, the rest are the arguments. */
export type Functions = Record<string, (ctx: Context<any>, ...args: any[]) => unknown>;

/** A kind of entity and the functions that run on its entities. Made by `operator`. */
export interface Operator<F = Functions> {
  /** The name under which clients and other components know it. */
  readonly name: string;
  /** The functions as they were given; a test may call them. */
  readonly functions: F;
  /** What the first part of keys stands for, if they are composite. */
  readonly keyPrefix: string | undefined;
  /** Documentation; without it, that of the variable. */
  readonly doc: string | undefined;
  /** Whether it says of what type its state is. */
  readonly hasState: boolean;
  /** What makes a value of that type of one that is not. */
  readonly migrate: ((old: any) => unknown) | undefined;
}

/** The type of an operator's state, for the build. Made by `stateOf`. */
export interface StateOf<S> {
  /** @internal */
  readonly styxState?: [S];
}

/** Says of what type the values of an operator's entities are: `operator("stock", { … }, { state: stateOf<Item>() })`. */
export function stateOf<S>(): StateOf<S> {
  return {};
}

export interface OperatorOptions<S = any> {
  /**
   * With `keyPrefix: "warehouse"`, keys read `prefix:rest` and all keys of one prefix live together,
   * whatever the operator; the value says what the prefix is.
   */
  keyPrefix?: string;
  /** Documentation. By default the comment over the variable. */
  doc?: string;
  /**
   * `stateOf<Item>()`: the type of its entities' values. A deployment is compared with entities that
   * there are, and refused if they are not of it, unless there is `migrate`.
   */
  state?: StateOf<S>;
  /**
   * Makes a value of type `state` of one that is not. It runs when a function reads such an entity, which
   * is then written unless the function is read-only or scans, and on all of them with `styx state migrate`.
   */
  migrate?: (old: any) => NoInfer<S>;
}

/** Marks a function made by `readOnly`. */
export interface ReadOnly {
  /** @internal */
  readonly styxReadOnly?: true;
}

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
const NAME_RULE = "start with a letter, then use letters, digits, _ and -, at most 64";
const READ_ONLY_MARK = "styxReadOnly";

/** Every operator of the process, in the order of declaration. */
export const declared: Operator<any>[] = [];

/**
 * Declares an operator:
 *
 * ```ts
 * export const account = operator("account", {
 *   deposit(ctx, amount: int): number {
 *     const balance = (ctx.state.get() ?? 0) + amount;
 *     ctx.state.put(balance);
 *     return balance;
 *   },
 * });
 * ```
 */
export function operator<F extends Functions, S = any>(name: string, functions: F, options: OperatorOptions<S> = {}): Operator<F> {
  const { keyPrefix, doc, state, migrate } = options;
  if (migrate !== undefined && state === undefined) {
    throw new DefinitionError(`${name} migrates, and does not say to what: state: stateOf<…>()`);
  }
  check("the operator's name", name);
  if (keyPrefix !== undefined) check(`${name}: keyPrefix`, keyPrefix);
  for (const [each, called] of Object.entries(functions)) {
    check("the function's name", each, `${name}.`);
    if (typeof called !== "function") throw new DefinitionError(`${name}.${each} is no function`);
  }
  const made = Object.freeze({ name, functions, keyPrefix, doc, hasState: state !== undefined, migrate });
  declared.push(made);
  return made;
}

function check(what: string, name: unknown, before = ""): void {
  if (typeof name !== "string" || !NAME.test(name)) {
    throw new DefinitionError(`${what} ${JSON.stringify(before + String(name))} is not allowed: ${NAME_RULE}`);
  }
}

/**
 * Declares that a function neither writes nor calls one that does. It then runs on the last committed
 * state, without a place in the log. The host enforces it.
 */
export function readOnly<F extends (ctx: ReadContext<any>, ...args: any[]) => unknown>(run: F): F & ReadOnly {
  // A function of its own: the given one may be registered elsewhere without this promise.
  const marked = (ctx: ReadContext<any>, ...args: any[]) => run(ctx, ...args);
  Object.defineProperty(marked, READ_ONLY_MARK, { value: true });
  return marked as unknown as F & ReadOnly;
}

function isReadOnly(run: Function): boolean {
  return (run as any)[READ_ONLY_MARK] === true;
}

/** What the build knows of a function from its types. */
export interface FunctionTypes {
  parameters: { name: string; schema: Schema; required: boolean }[];
  returns: Schema;
  doc: string;
}

/** What the build knows of all functions, by `operator.function`, and of operators' comments. */
export interface Types {
  functions: Record<string, FunctionTypes>;
  docs: Record<string, string>;
  /** Types of state by operator. */
  states?: Record<string, Schema>;
}

const NO_PARAMETERS: FunctionTypes = { parameters: [], returns: { type: "boolean" }, doc: "" };

/** A function ready to run. */
export class Entry {
  readonly qualified: string;
  readonly readOnly: boolean;
  readonly run: (ctx: any, ...args: any[]) => unknown;
  private readonly checks: (Check | null)[];
  private readonly requiredCount: number;

  constructor(
    readonly operator: string,
    readonly name: string,
    run: Function,
    /** Absent where nobody has looked at types. */
    readonly types: FunctionTypes | undefined,
    /** What its state is read by, if its operator migrates. */
    readonly stored?: Stored,
  ) {
    this.qualified = `${operator}.${name}`;
    this.readOnly = isReadOnly(run);
    this.run = run as Entry["run"];
    this.checks = types?.parameters.map((parameter) => checkOf(parameter.schema)) ?? [];
    this.requiredCount = (types?.parameters.findLastIndex((parameter) => parameter.required) ?? -1) + 1;
  }

  /** The arguments of an invocation, checked and converted. Throws `Rejected`. */
  accept(values: any): any[] {
    if (!Array.isArray(values)) throw new Rejected(`${this.qualified}: the arguments must be a JSON array`);
    if (this.types === undefined) return values;
    const parameters = this.types.parameters;
    const count = values.length;
    if (count > parameters.length) {
      const most = parameters.length;
      throw new Rejected(`${this.qualified} takes ${most || "no"} argument${most === 1 ? "" : "s"}, but ${count} were given`);
    }
    if (count < this.requiredCount) {
      throw new Rejected(`${this.qualified} misses the argument '${parameters[count]!.name}'`);
    }
    for (let index = 0; index < count; index++) {
      const check = this.checks[index];
      if (!check) continue;
      try {
        values[index] = check(values[index]);
      } catch (error) {
        if (!(error instanceof Mismatch)) throw error;
        throw new Rejected(`${this.qualified}: ${error.describe(parameters[index]!.name)}`);
      }
    }
    return values;
  }
}

/** All functions by `operator.function`. Throws a `DefinitionError` for names that are given twice. */
export function entriesOf(operators: readonly Operator<any>[], types?: Types): Map<string, Entry> {
  const table = new Map<string, Entry>();
  const seen = new Set<string>();
  for (const each of operators) {
    if (seen.has(each.name)) throw new DefinitionError(`the operator ${each.name} is declared twice: import it instead`);
    seen.add(each.name);
    const stored = each.migrate && new Stored(each.name, types?.states?.[each.name] ?? {}, each.migrate);
    for (const [name, run] of Object.entries(each.functions as Functions)) {
      const entry = new Entry(each.name, name, run, types?.functions[`${each.name}.${name}`], stored);
      table.set(entry.qualified, entry);
    }
    if (stored !== undefined) {
      const entry = new Entry(each.name, MIGRATE, (ctx: Context) => ctx.state.migrateOwn(), NO_PARAMETERS, stored);
      table.set(entry.qualified, entry);
    }
  }
  return table;
}

/** The functions of an operator as a caller sees them: without the context, and settled. */
export type Calls<F> = {
  [N in keyof F]: F[N] extends (ctx: any, ...args: infer A) => infer R ? (...args: A) => Awaited<R> : never;
};

/** The same for calls whose results nobody gets. */
export type AsyncCalls<F> = {
  [N in keyof F]: F[N] extends (ctx: any, ...args: infer A) => unknown ? (...args: A) => void : never;
};

/** Functions of an operator that another component implements, as a caller sees them. */
export type Untyped = Record<string, (...args: any[]) => any>;
