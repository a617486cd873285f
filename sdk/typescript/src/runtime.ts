/** The exports `describe` and `invoke`, for whoever provides the imports. */

import { Context, Shared } from "./context.js";
import { BAD_ARGUMENTS, DefinitionError, failureOf, GUEST_EXCEPTION, Rejected, safeText, UNKNOWN_FUNCTION, type Failure } from "./errors.js";
import type { Imports } from "./imports.js";
import { toText } from "./json.js";
import { entriesOf, type Entry, type Operator, type Types } from "./operator.js";
import { statusOf, type Jobs } from "./promise.js";
import type { Schema } from "./shape.js";
import { MIGRATE, STATE } from "./stored.js";

export const SDK = "styx-typescript 0.1.0";

/** The contract's description. */
export interface Description {
  sdk: string;
  operators: {
    name: string;
    keyPrefix: string | null;
    doc: string;
    functions: {
      name: string;
      parameters: { name: string; schema: string; required: boolean }[];
      returns: string;
      readOnly: boolean;
      doc: string;
    }[];
  }[];
}

/** What a component tells a server of itself. */
export function describe(operators: readonly Operator<any>[], types: Types): Description {
  const described = operators
    .filter((operator) => Object.keys(operator.functions).length > 0)
    .map((operator) => ({
      name: operator.name,
      keyPrefix: operator.keyPrefix ?? null,
      doc: operator.doc ?? types.docs[operator.name] ?? "",
      functions: [...Object.keys(operator.functions).map((name) => {
        const known = types.functions[`${operator.name}.${name}`];
        const entry = entriesOf([operator], types).get(`${operator.name}.${name}`)!;
        const parameters = known?.parameters ?? [];
        return {
          name,
          parameters: parameters.map(({ name, schema, required }) => ({ name, schema: toText(schema), required })),
          returns: toText(known?.returns ?? {}),
          readOnly: entry.readOnly,
          doc: known?.doc ?? "",
        };
      }), ...describeState(operator, types)],
    }));
  if (described.length === 0) {
    throw new DefinitionError("no function is declared: the entry module declares none with operator(…), nor does what it imports");
  }
  return { sdk: SDK, operators: described };
}

/** What the contract has of an operator's values among its functions. */
function describeState({ name, hasState, migrate }: Operator<any>, types: Types): Description["operators"][number]["functions"] {
  const entry = (name: string, returns: Schema, readOnly: boolean) => ({ name, parameters: [], returns: toText(returns), readOnly, doc: "" });
  const described = hasState ? [entry(STATE, types.states?.[name] ?? {}, true)] : [];
  if (migrate !== undefined) described.push(entry(MIGRATE, { type: "boolean" }, false));
  return described;
}

/**
 * Runs one invocation: hands its result to `returned`, or throws what `fail` makes. Arguments that could not be read are
 * absent, with why.
 */
export type Invoke = (name: string, key: string, args: any, unreadable?: unknown) => void;

export interface Surroundings {
  imports: Imports;
  /** What promises queue. */
  jobs: Jobs;
  /** Makes what is thrown, of a failure and what was behind it. */
  fail: (failure: Failure, cause?: unknown) => unknown;
  /** Where an error was thrown, of its stack; empty if unknown. */
  originOf: (stack: string) => string;
  /** Takes what a function returns. Throws for what has no JSON form. */
  returned: (value: unknown) => void;
}

/** Calls a function. To spread a few arguments takes the engine as long as a call. */
function run({ run }: Entry, context: Context, values: any[]): unknown {
  switch (values.length) {
    case 0:
      return run(context);
    case 1:
      return run(context, values[0]);
    case 2:
      return run(context, values[0], values[1]);
    case 3:
      return run(context, values[0], values[1], values[2]);
    default:
      return run(context, ...values);
  }
}

/** The export `invoke` over a table of functions. */
export function makeInvoke(table: Map<string, Entry>, { imports, jobs, fail, originOf, returned }: Surroundings): Invoke {
  const shared = new Shared(imports);

  function failed(entry: Entry, error: unknown): unknown {
    jobs.clear();
    let stack = "";
    try {
      stack = error instanceof Error ? originOf(String(error.stack ?? "")) : "";
    } catch {
      // An error whose stack misbehaves.
    }
    const failure = failureOf(error, stack);
    if (failure.code === GUEST_EXCEPTION) return fail(failure, error); // The host logs it.
    try {
      const kind = error instanceof Error ? error.name : typeof error;
      imports.log("debug", `${entry.qualified} aborted by ${kind}${stack === "" ? "" : ` at ${stack}`}`);
    } catch {
      // The failure itself matters more.
    }
    return fail(failure, error);
  }

  /** The value of a promise, which can only wait for others: there are no events. */
  function settled(promise: any): unknown {
    let outcome: { isRejected: boolean; value: any } | undefined;
    promise.then(
      (value: any) => (outcome = { isRejected: false, value }),
      (value: any) => (outcome = { isRejected: true, value }),
    );
    jobs.run();
    if (outcome === undefined) {
      throw new Error("it returned a promise that never settles: nothing can happen outside of a function while it runs");
    }
    if (outcome.isRejected) throw outcome.value;
    return outcome.value;
  }

  return (name, key, args, unreadable) => {
    const entry = table.get(name);
    if (entry === undefined) {
      throw fail({ code: UNKNOWN_FUNCTION, message: `there is no function ${safeText(name)} in this component` });
    }
    let values: any[];
    try {
      if (unreadable !== undefined) throw unreadable;
      values = entry.accept(args);
    } catch (error) {
      const text = error instanceof Rejected ? error.message : `${name}: the arguments are not a JSON array: ${failureOf(error).message}`;
      throw fail({ code: BAD_ARGUMENTS, message: safeText(text) });
    }
    try {
      let result = run(entry, new Context(key, shared, entry), values);
      if (typeof result === "object" && result !== null && typeof (result as any).then === "function") result = settled(result);
      if (jobs.isUsed) {
        jobs.run();
        for (const promise of jobs.unhandled) throw statusOf(promise).value;
        jobs.clear();
      }
      returned(result ?? null);
    } catch (error) {
      throw failed(entry, error);
    }
  };
}
