/**
 * Connects the component's imports and exports with the SDK. Everything in here happens once, while
 * the component is built: what a component starts from is the engine after it.
 */

// @ts-ignore what componentize-qjs makes of the contract
import calls from "styx:guest/calls@0.1.0";
// @ts-ignore
import context from "styx:guest/context@0.1.0";
// @ts-ignore
import logging from "styx:guest/logging@0.1.0";
// @ts-ignore
import state from "styx:guest/state@0.1.0";

import { install, invocation } from "./globals.js";
import type { Imports } from "./imports.js";
import { refuseBytes } from "./json.js";
import { declared, entriesOf, type Types } from "./operator.js";
import { Jobs } from "./promise.js";
import { describe, makeInvoke, type Description, type Invoke } from "./runtime.js";

const imports: Imports = {
  getOwn: state.getOwn,
  putOwn: state.putOwn,
  deleteOwn: state.deleteOwn,
  get: state.get,
  put: state.put,
  delete: state.delete,
  scan: state.scan,
  call: calls.call,
  callAsync: calls.callAsync,
  app: context.app,
  tid: context.tid,
  requestId: context.requestId,
  time: context.time,
  random: context.random,
  log: logging.log,
};
const jobs = new Jobs();
install(imports, jobs);
refuseBytes();

/** The exports of a component with everything that has been declared. */
export function start(types: Types, originOf: (stack: string) => string): { describe: () => Description; invoke: Invoke } {
  // What modules do while they are loaded may use promises; it is over now.
  jobs.run();
  jobs.clear();
  const table = entriesOf(declared, types);
  const description = describe(declared, types);
  const invoke = makeInvoke(table, { imports, jobs, fail: (failure) => failure, originOf });
  invocation.isRunning = true;
  return { describe: () => description, invoke };
}
