/** What there is of the web's interfaces inside a component. */

interface StyxConsole {
  log(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
}
/** Writes log lines of the host. */
declare var console: StyxConsole;

interface StyxCrypto {
  getRandomValues<T extends ArrayBufferView>(array: T): T;
  randomUUID(): string;
}
/** Random numbers of the transaction: alike in every replay, so no secrets. */
declare var crypto: StyxCrypto;

declare class TextEncoder {
  readonly encoding: string;
  encode(text?: string): Uint8Array;
}

declare class TextDecoder {
  constructor(encoding?: string);
  readonly encoding: string;
  decode(bytes?: ArrayBuffer | ArrayBufferView): string;
}

declare function queueMicrotask(run: () => void): void;
declare function btoa(text: string): string;
declare function atob(text: string): string;
