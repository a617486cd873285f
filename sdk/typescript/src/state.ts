/** `ctx.state`: the entities of the running function's own operator, as JSON values. */

import type { Bound, Imports } from "./imports.js";
import type { Stored } from "./stored.js";

/** Which keys a scan looks at. Bounds are in the byte order of keys. */
export interface Range {
  /** Only keys that begin with this. With a `keyPrefix`, `"w7:"` stays on one partition. */
  prefix?: string;
  /** The first key, included. */
  start?: string;
  /** The key to end before. */
  end?: string;
  /** Continues behind this key, in the direction of the scan. */
  after?: string | null;
  /** At most so many. */
  limit?: number;
  /** Downwards. */
  reverse?: boolean;
}

/** What may be done with state without writing. */
export interface ReadState<S = any> {
  /** The value of the invoked entity, or of another of its operator; undefined if there is none. */
  get(): S | undefined;
  get<T = S>(key: string): T | undefined;
  /**
   * Keys and values in the byte order of keys. The whole range that was looked at counts as read,
   * also where nothing was found: ask for no more than is needed.
   */
  scan<T = S>(range?: Range): [key: string, value: T][];
}

/**
 * Reads and writes of the invoked entity and, given a key, of its operator's other entities.
 * Values are whatever JSON can express. What was read is a copy: it counts when it is put.
 */
export class State<S = any> implements ReadState<S> {
  /** @internal */
  constructor(
    private readonly imports: Imports,
    private readonly stored?: Stored,
    private readonly mayWrite = true,
  ) {}

  get(): S | undefined;
  get<T = S>(key: string): T | undefined;
  get(key?: string): any {
    const stored = key === undefined ? this.imports.getOwn() : this.imports.get(key);
    if (stored === undefined || this.stored === undefined) return stored;
    const { value, isMigrated } = this.stored.read(stored, () => (key === undefined ? this.imports.getOwn() : this.imports.get(key)));
    if (isMigrated && this.mayWrite) {
      if (key === undefined) this.imports.putOwn(value);
      else this.imports.put(key, value);
    }
    return value;
  }

  /** @internal Whether the invoked entity was of an earlier type. */
  migrateOwn(): boolean {
    const stored = this.imports.getOwn();
    if (stored === undefined || this.stored === undefined) return false;
    const { value, isMigrated } = this.stored.read(stored, () => this.imports.getOwn());
    if (isMigrated) this.imports.putOwn(value);
    return isMigrated;
  }

  /** Writes the invoked entity, or `key`. */
  put(value: S): void;
  put<T = S>(value: T, key: string): void;
  put(value: any, key?: string): void {
    if (value === undefined) throw new TypeError("state.put(undefined): use state.delete() to remove an entity");
    if (key === undefined) this.imports.putOwn(value);
    else this.imports.put(key, value);
  }

  /** Removes the invoked entity, or `key`. Removing an absent one is no error. */
  delete(key?: string): void {
    if (key === undefined) this.imports.deleteOwn();
    else this.imports.delete(key);
  }

  scan<T = S>(range: Range = {}): [key: string, value: T][] {
    const { prefix = "", start, end, after, limit, reverse = false } = range;
    if (limit !== undefined && !(Number.isInteger(limit) && limit >= 0 && limit < 2 ** 32)) {
      throw new RangeError(`scan: limit must be a whole number that is not negative, not ${limit}`);
    }
    if (limit === 0) return [];
    let lower: Bound = start === undefined ? { tag: "unbounded" } : { tag: "included", val: start };
    let upper: Bound = end === undefined ? { tag: "unbounded" } : { tag: "excluded", val: end };
    if (typeof after === "string") {
      if (reverse) {
        if (end === undefined || compareKeys(after, end) < 0) upper = { tag: "excluded", val: after };
      } else if (start === undefined || compareKeys(after, start) >= 0) {
        lower = { tag: "excluded", val: after };
      }
    }
    const entries = this.imports.scan({ prefix, lower, upper }, limit ?? 0, reverse);
    if (this.stored !== undefined) {
      for (const entry of entries) entry[1] = this.stored.read(entry[1], () => this.imports.get(entry[0])).value;
    }
    return entries;
  }
}

/** Order of keys by their bytes in UTF-8, which is that of code points; JavaScript compares UTF-16. */
export function compareKeys(one: string, other: string): number {
  let index = 0;
  while (index < one.length && one.charCodeAt(index) === other.charCodeAt(index)) index++;
  // The characters that differ, with the first halves of pairs that are alike.
  if (index > 0 && (one.charCodeAt(index) & 0xfc00) === 0xdc00 && (one.charCodeAt(index - 1) & 0xfc00) === 0xd800) index--;
  return (one.codePointAt(index) ?? -1) - (other.codePointAt(index) ?? -1);
}
