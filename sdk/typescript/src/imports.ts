/**
 * What a component imports from its host, as componentize-qjs shows `wit/guest.wit`.
 * `component.ts` fills it with the real thing, `testing.ts` with one in memory.
 */

export type Level = "debug" | "info" | "warn" | "error";

/** One end of a range of keys. */
export type Bound = { tag: "unbounded" } | { tag: "included"; val: string } | { tag: "excluded"; val: string };

export interface KeyRange {
  prefix: string;
  lower: Bound;
  upper: Bound;
}

export interface Imports {
  getOwn(): Uint8Array | null;
  putOwn(value: Uint8Array): void;
  deleteOwn(): void;
  get(key: string): Uint8Array | null;
  put(key: string, value: Uint8Array): void;
  delete(key: string): void;
  scan(range: KeyRange, limit: number, reverse: boolean): [string, Uint8Array][];
  /** Throws a `Failure`, bare or as the `payload` of an error. */
  call(operator: string, key: string, name: string, args: Uint8Array): Uint8Array;
  callAsync(operator: string, key: string, name: string, args: Uint8Array): void;
  app(): string;
  tid(): number;
  requestId(): string;
  /** Microseconds. */
  time(): number;
  /** 64 bits, of which a number holds the upper 53. */
  random(): number;
  log(level: Level, message: string): void;
}
