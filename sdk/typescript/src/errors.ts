/** What can go wrong, and how what a function throws becomes the failure that a caller reads. */

/** A function threw; the message is the error's own. */
export const ABORTED = "ABORTED";
/** A function was called with arguments that it cannot take. */
export const BAD_ARGUMENTS = "BAD_ARGUMENTS";
/** A function that the component does not have was called. */
export const UNKNOWN_FUNCTION = "UNKNOWN_FUNCTION";
/** The instance ran out of memory. */
export const LIMIT_EXCEEDED = "LIMIT_EXCEEDED";
/** A read-only function wrote, or called one that may. Found by the host. */
export const READ_ONLY = "READ_ONLY";

/** The longest message of a failure, in bytes of UTF-8. */
const MESSAGE_BYTES_MAX = 4096;

/** A failure as the contract has it. */
export interface Failure {
  code: string;
  message: string;
}

/**
 * A nested `ctx.call` failed, and with it the whole transaction.
 *
 * Left alone it carries the callee's message and code to the client. It may be caught to throw
 * something that says more; it cannot be caught to carry on.
 */
export class CallFailed extends Error {
  /** The callee's code: `ABORTED`, `BAD_ARGUMENTS`, ... */
  readonly code: string;

  constructor(message: string, code: string = ABORTED) {
    super(message);
    this.name = "CallFailed";
    this.code = code;
  }
}

/** The arguments of an invocation do not fit the function. */
export class Rejected extends Error {}

/** An operator or a function is declared wrongly. Thrown while the project is built. */
export class DefinitionError extends Error {}

/** The failure that something thrown by a function gives its caller. */
export function failureOf(thrown: unknown): Failure {
  try {
    if (thrown instanceof CallFailed) return { code: thrown.code, message: safeText(thrown.message) };
    if (thrown instanceof Error) {
      if (thrown.name === "InternalError" && thrown.message === "out of memory") {
        const message = "the function ran out of memory: keep less in it or raise the memory limit";
        return { code: LIMIT_EXCEEDED, message };
      }
      return { code: ABORTED, message: safeText(String(thrown.message)) || safeText(thrown.name) || "Error" };
    }
    // Anything may be thrown in JavaScript. QuickJS throws null when memory is too short for an error.
    if (thrown === null) return { code: LIMIT_EXCEEDED, message: "the function ran out of memory" };
    return { code: ABORTED, message: safeText(String(thrown)) || "the function threw an empty text" };
  } catch {
    return { code: ABORTED, message: "the function threw something that has no text" };
  }
}

/** A text without control characters and lone surrogates, cut to some bytes of UTF-8. */
export function safeText(text: string, bytesMax: number = MESSAGE_BYTES_MAX): string {
  let clean = text.length > bytesMax ? text.slice(0, bytesMax) : text;
  if (!/[^ -~]/.test(clean) && clean.length === text.length) return clean;
  clean = clean.replace(/[\x00-\x08\x0b-\x1f\x7f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
  let bytes = 0;
  let end = 0;
  for (const character of clean) {
    const point = character.codePointAt(0)!;
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (bytes <= bytesMax - 3) end += character.length;
  }
  return bytes <= bytesMax && clean.length === text.length ? clean : clean.slice(0, end) + "…";
}
