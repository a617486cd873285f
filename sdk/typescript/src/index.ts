/**
 * Styx: plain functions on keyed entities, run as serializable transactions.
 *
 * A module declares operators with their functions; everything else (locks, retries, exactly once)
 * is the host's business.
 */

export { operator, readOnly, stateOf } from "./operator.js";
export type { AsyncCalls, Calls, Functions, Operator, OperatorOptions, StateOf, Untyped } from "./operator.js";
export type { Context, Log, ReadContext } from "./context.js";
export type { Range, ReadState, State } from "./state.js";
export type { int } from "./int.js";
export type { Json } from "./json.js";
export { Abort, CallFailed } from "./errors.js";
