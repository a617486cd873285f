/** What can go wrong, and how what a function throws becomes the failure that a caller reads. */

/** A function refused; the message is the error's own. */
export const ABORTED = "ABORTED";
/** A function ended by an error that is not the app's own: a bug. */
export const GUEST_EXCEPTION = "GUEST_EXCEPTION";
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

/** What an app may call an error of its own. */
const APP_CODE = /^[A-Z][A-Z0-9_]{0,63}$/;

/**
 * Base of an app's own errors. Its `code` reaches the client as `app_code`, so that nobody has to
 * parse the message. Give a class one, or an instance:
 *
 *     class SoldOut extends Abort {
 *       override code = "SOLD_OUT";
 *     }
 *     throw new SoldOut(`no ${ctx.key} is left`);
 *     throw new Abort("closed on Sundays", "CLOSED");
 */
export class Abort extends Error {
  /** Capital letters, digits and `_`, beginning with a letter, 64 at most; undefined for none. */
  code: string | undefined;

  constructor(message?: string, code?: string) {
    super(message);
    this.name = new.target.name;
    this.code = code;
  }
}

/**
 * A nested `ctx.call` failed, and with it the whole transaction.
 *
 * Left alone it carries the callee's message and code to the client. It may be caught to throw
 * something that says more; it cannot be caught to carry on.
 */
export class CallFailed extends Error {
  /** The callee's code: `ABORTED`, `GUEST_EXCEPTION`, ... */
  readonly code: string;
  /** The app's own code, if the callee gave one. */
  readonly appCode: string | undefined;

  constructor(message: string, code: string = ABORTED, options?: ErrorOptions) {
    super(message, options);
    this.name = "CallFailed";
    const [first, appCode] = code.split(":", 2);
    this.code = first!;
    this.appCode = appCode;
  }

  /** `code`, with `appCode` after a colon if there is one: as the contract has it. */
  get fullCode(): string {
    return this.appCode === undefined ? this.code : `${this.code}:${this.appCode}`;
  }
}

/** The arguments of an invocation do not fit the function. */
export class Rejected extends Error {}

/** An operator or a function is declared wrongly. Thrown while the project is built. */
export class DefinitionError extends Error {}

/** What the language throws, and so a bug. An `Error` of another class, or of none, is the app's own. */
const BUGS: readonly Function[] = [TypeError, RangeError, ReferenceError, SyntaxError, URIError, EvalError];

/** So that the place still fits behind it. */
const BUG_BYTES_MAX = 3072;

function bug(text: string, origin: string): Failure {
  const described = safeText(text, BUG_BYTES_MAX);
  return { code: GUEST_EXCEPTION, message: safeText(origin === "" ? described : `${described} at ${origin}`) };
}

/** The failure that something thrown by a function gives its caller. `origin` is where it was thrown, if that is known. */
export function failureOf(thrown: unknown, origin: string = ""): Failure {
  try {
    if (thrown instanceof CallFailed) return { code: thrown.fullCode, message: safeText(thrown.message) };
    if (thrown instanceof Abort && thrown.code !== undefined) {
      if (typeof thrown.code !== "string" || !APP_CODE.test(thrown.code)) {
        const rule = "begin with a capital letter, then use capital letters, digits and _, at most 64";
        return bug(`the code ${JSON.stringify(thrown.code)} of ${thrown.name} is not allowed: ${rule}`, origin);
      }
      return { code: `${ABORTED}:${thrown.code}`, message: safeText(thrown.message) || safeText(thrown.name) };
    }
    if (thrown instanceof Error) {
      if (thrown.name === "InternalError" && thrown.message === "out of memory") {
        const message = "the function ran out of memory: keep less in it or raise the memory limit";
        return { code: LIMIT_EXCEEDED, message };
      }
      const isInternal = thrown.name === "InternalError";
      if (isInternal || BUGS.some((kind) => thrown.constructor === kind)) return bug(`${thrown.name}: ${thrown.message}`, origin);
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
