/**
 * JSON, both ways, exactly: the engine's own does the work, and where it would change a value without a word
 * (integers beyond 2^53, NaN, a Map) a slower way takes over. In a component the first half of that is
 * `engine/engine.c`, which comes here for the second.
 */

/** Whatever JSON can express; integers that a number cannot hold exactly are bigints. */
export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json };

/** Digits that a number may not hold, or an exponent that it may not. */
const DELICATE = /\d{16}|[eE]\+?\d{3}/;
/** What NaN, an infinity, a Map, a lone surrogate or -0 may have left. */
const SUSPICIOUS = /null|\{\}|\\ud|(?:^|[[:,])0(?:$|[\],}])/;

/** The value of a JSON text. */
export function fromText(text: string): any {
  return DELICATE.test(text) ? new Reader(text).all() : JSON.parse(text);
}

/** A value as compact JSON; throws a TypeError for what JSON cannot express. `undefined` is null. */
export function toText(value: unknown): string {
  switch (typeof value) {
    case "undefined":
      return "null";
    case "number":
      if (Number.isSafeInteger(value)) return number(value);
      break;
    case "bigint":
      return String(value);
  }
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    // A bigint, which may be deep inside; or a circle, which is refused again.
    if (!(error instanceof TypeError)) throw error;
    return write(value, "", []);
  }
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON form`);
  return SUSPICIOUS.test(text) ? write(value, "", []) : text;
}

/** Arrays of bytes would become objects of their indexes: from now on they are refused. */
export function refuseBytes(): void {
  const prototype = Object.getPrototypeOf(Uint8Array.prototype);
  const toJSON = () => {
    throw new TypeError("an array of bytes has no JSON form: use Array.from(…)");
  };
  Object.defineProperty(prototype, "toJSON", { value: toJSON, configurable: true, writable: true });
}

/** JSON by hand: knows bigints, and refuses what has no JSON form. */
function write(value: any, key: string, open: object[]): string {
  switch (typeof value) {
    case "bigint":
      return String(value);
    case "number":
      if (!Number.isFinite(value)) throw new TypeError(`${value} has no JSON form`);
      return number(value);
    case "string":
      if (/[\ud800-\udfff]/.test(value) && !isWellFormed(value)) {
        throw new TypeError("a text with half of a surrogate pair has no JSON form");
      }
      return JSON.stringify(value);
    case "boolean":
      return String(value);
    case "undefined":
    case "function":
    case "symbol":
      return "null";
  }
  if (value === null) return "null";
  if (open.includes(value)) throw new TypeError("a value that contains itself has no JSON form");
  open.push(value);
  let text: string;
  if (typeof value.toJSON === "function") {
    text = write(value.toJSON(key), key, open);
  } else if (Array.isArray(value)) {
    text = `[${value.map((item, index) => write(item, String(index), open)).join(",")}]`;
  } else if (value instanceof Map || value instanceof Set || ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    const advice = value instanceof Map ? "Object.fromEntries(…)" : "Array.from(…)";
    throw new TypeError(`a ${value.constructor.name} has no JSON form: use ${advice}`);
  } else if (value instanceof Number || value instanceof String || value instanceof Boolean) {
    text = write(value.valueOf(), key, open);
  } else {
    const members: string[] = [];
    for (const name of Object.keys(value)) {
      const member = value[name];
      if (member === undefined || typeof member === "function" || typeof member === "symbol") continue;
      members.push(`${write(name, "", open)}:${write(member, name, open)}`);
    }
    text = `{${members.join(",")}}`;
  }
  open.pop();
  return text;
}

/** -0 is a number of its own, which JSON can say and JSON.stringify does not. */
function number(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}

function isWellFormed(text: string): boolean {
  return !/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text);
}

/** Deeper ones exhaust the stack. */
const DEPTH_MAX = 200;

/** Reads JSON by hand: integers that a number does not hold exactly become bigints. */
class Reader {
  private at = 0;
  private depth = 0;

  constructor(private readonly text: string) {}

  all(): any {
    const value = this.value();
    this.blanks();
    if (this.at < this.text.length) this.fail();
    return value;
  }

  private fail(): never {
    throw new SyntaxError(`this is no JSON, at character ${this.at}`);
  }

  private blanks(): void {
    while (" \t\n\r".includes(this.text.charAt(this.at)) && this.at < this.text.length) this.at++;
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) this.fail();
    this.at += found[0].length;
    return found[0];
  }

  private take(character: string): boolean {
    this.blanks();
    if (this.text.charAt(this.at) !== character) return false;
    this.at++;
    return true;
  }

  private value(): any {
    this.blanks();
    switch (this.text.charAt(this.at)) {
      case "{":
        return this.nested(() => this.object());
      case "[":
        return this.nested(() => this.array());
      case '"':
        return this.string();
      case "t":
      case "f":
      case "n":
        return JSON.parse(this.match(/true|false|null/y));
    }
    const digits = this.match(/-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?/y);
    const number = Number(digits);
    if (/^-?\d+$/.test(digits)) return Number.isSafeInteger(number) ? number : BigInt(digits);
    if (!Number.isFinite(number)) throw new RangeError(`${digits} is more than a number can hold`);
    return number;
  }

  private nested(read: () => any): any {
    if (++this.depth > DEPTH_MAX) throw new RangeError(`the JSON is nested more than ${DEPTH_MAX} deep`);
    this.at++;
    const value = read();
    this.depth--;
    return value;
  }

  private string(): string {
    return JSON.parse(this.match(/"(?:[^"\\\x00-\x1f]|\\.)*"/y));
  }

  private array(): any[] {
    const items: any[] = [];
    if (this.take("]")) return items;
    do items.push(this.value());
    while (this.take(","));
    if (!this.take("]")) this.fail();
    return items;
  }

  private object(): object {
    const members: Record<string, any> = {};
    if (this.take("}")) return members;
    do {
      this.blanks();
      const name = this.string();
      if (!this.take(":")) this.fail();
      const value = this.value();
      // As JSON.parse has it: a member like any other.
      if (name === "__proto__") Object.defineProperty(members, name, { value, enumerable: true, configurable: true, writable: true });
      else members[name] = value;
    } while (this.take(","));
    if (!this.take("}")) this.fail();
    return members;
  }
}
