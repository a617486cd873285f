/**
 * What a component imports from its host, with JSON read and written already. `component.ts` fills it with the real
 * thing, `testing.ts` with one in memory.
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
  /** A copy of the value, undefined if there is none. */
  getOwn(): any;
  putOwn(value: unknown): void;
  deleteOwn(): void;
  get(key: string): any;
  put(key: string, value: unknown): void;
  delete(key: string): void;
  scan(range: KeyRange, limit: number, reverse: boolean): [string, any][];
  /** Throws a `Failure`. */
  call(operator: string, key: string, name: string, args: readonly unknown[]): any;
  callAsync(operator: string, key: string, name: string, args: readonly unknown[]): void;
  app(): string;
  tid(): number;
  requestId(): string;
  /** Microseconds. */
  time(): number;
  /** 64 bits, of which a number holds the upper 53. */
  random(): number;
  log(level: Level, message: string): void;
}
