/**
 * The globals of a component: what QuickJS lacks of the web's interfaces, and the transaction's
 * own random numbers. Clocks need nothing: the host answers with the transaction's time.
 */

import { fraction } from "./context.js";
import { safeText } from "./errors.js";
import type { Imports, Level } from "./imports.js";
import { Log } from "./context.js";
import { promiseClass, type Jobs } from "./promise.js";
import { decode, encode } from "./utf8.js";

/** What cannot be had, and why. */
const ABSENT: [string[], string][] = [
  [["setTimeout", "setInterval", "setImmediate", "requestAnimationFrame"], "a transaction has no later; use ctx.callAsync for what comes after the function"],
  [["fetch", "XMLHttpRequest", "WebSocket", "EventSource"], "a function reaches nothing but state and other functions"],
  [["WeakRef", "FinalizationRegistry"], "when memory is collected differs from one replay to the next"],
  [["Worker", "Atomics", "SharedArrayBuffer"], "a function is one thread"],
  [["require"], "only what was imported when the component was built is in it: use import"],
];

/** Whether a function runs; while the component is built, nothing of a transaction can be asked. */
export const invocation = { isRunning: false };

/** Sets the globals, before any code of the project is there. */
export function install(imports: Imports, jobs: Jobs): void {
  const set = (name: string, value: unknown) =>
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false });

  for (const [names, reason] of ABSENT) {
    for (const name of names) {
      set(name, function absent(): never {
        throw new Error(`${name} is not available in a component: ${reason}`);
      });
    }
  }

  const nativeRandom = Math.random;
  Math.random = function random() {
    return invocation.isRunning ? fraction(imports.random()) : nativeRandom();
  };
  set("crypto", {
    getRandomValues(array: ArrayBufferView) {
      const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      for (let index = 0; index < bytes.length; index++) bytes[index] = Math.floor(Math.random() * 256);
      return array;
    },
    randomUUID() {
      const digit = (bits: number, over: number) => (Math.floor(Math.random() * bits) + over).toString(16);
      return "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx".replace(/[xy]/g, (place) => (place === "x" ? digit(16, 0) : digit(4, 8)));
    },
  });

  const log = new Log({
    ...imports,
    log(level: Level, message: string) {
      if (invocation.isRunning) imports.log(level, safeText(message, 16 << 10));
    },
  });
  const method = (level: "debug" | "info" | "warn" | "error") => (...values: unknown[]) => log[level](...values);
  set("console", { log: method("info"), info: method("info"), debug: method("debug"), warn: method("warn"), error: method("error"), trace: method("debug") });

  set("Promise", promiseClass(jobs));
  set("queueMicrotask", (run: () => void) => jobs.add(run));
  set("TextEncoder", class TextEncoder {
    readonly encoding = "utf-8";
    encode(text = "") {
      return encode(String(text).replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd"));
    }
  });
  set("TextDecoder", class TextDecoder {
    readonly encoding = "utf-8";
    constructor(encoding = "utf-8") {
      if (!/^utf-?8$/i.test(encoding)) throw new RangeError(`the encoding ${encoding} is not available: only utf-8 is`);
    }
    decode(bytes: any = new Uint8Array()) {
      const view = ArrayBuffer.isView(bytes) ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) : new Uint8Array(bytes);
      return decode(view);
    }
  });
}
