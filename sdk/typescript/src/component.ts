/**
 * Connects the engine with the SDK. Everything in here happens once, while the component is built: what a component
 * starts from is the engine after it.
 */

import { install, invocation } from "./globals.js";
import type { Bound, Imports } from "./imports.js";
import { fromText, refuseBytes, toText } from "./json.js";
import { declared, entriesOf, type Types } from "./operator.js";
import { Jobs } from "./promise.js";
import { describe, makeInvoke, type Description, type Invoke } from "./runtime.js";

/** What the engine, `engine/engine.c`, has besides the language. */
interface Engine extends Omit<Imports, "scan" | "log"> {
  scan(prefix: string, lowerKind: number, lower: string, upperKind: number, upper: string, limit: number, reverse: boolean): [string, any][];
  log(level: number, line: string): void;
  /** Sets what the running invocation returns. */
  returned(value: unknown): void;
  /** What it reads and writes JSON by where its own way would change a value without a word. */
  use(toText: (value: unknown) => string, fromText: (text: string) => unknown): void;
  start(description: Description, invoke: Invoke): void;
}

const engine: Engine = (globalThis as any).styxHost;
delete (globalThis as any).styxHost;

const KINDS = { unbounded: 0, included: 1, excluded: 2 };
const LEVELS = { debug: 0, info: 1, warn: 2, error: 3 };
const keyOf = (bound: Bound) => (bound.tag === "unbounded" ? "" : bound.val);

const imports: Imports = {
  getOwn: engine.getOwn,
  putOwn: engine.putOwn,
  deleteOwn: engine.deleteOwn,
  get: engine.get,
  put: engine.put,
  delete: engine.delete,
  scan: ({ prefix, lower, upper }, limit, reverse) =>
    engine.scan(prefix, KINDS[lower.tag], keyOf(lower), KINDS[upper.tag], keyOf(upper), limit, reverse),
  call: engine.call,
  callAsync: engine.callAsync,
  app: engine.app,
  tid: engine.tid,
  requestId: engine.requestId,
  time: engine.time,
  random: engine.random,
  log: (level, line) => engine.log(LEVELS[level], line),
};
const jobs = new Jobs();
install(imports, jobs);
refuseBytes();
engine.use(toText, fromText);

/** Makes the exports of the component of everything that has been declared. */
export function start(types: Types, originOf: (stack: string) => string): void {
  // What modules do while they are loaded may use promises; it is over now.
  jobs.run();
  jobs.clear();
  const table = entriesOf(declared, types);
  const description = describe(declared, types);
  const invoke = makeInvoke(table, { imports, jobs, fail: (failure) => failure, originOf, returned: engine.returned });
  invocation.isRunning = true;
  engine.start(description, invoke);
}
