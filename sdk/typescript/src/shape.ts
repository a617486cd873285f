/** JSON Schemas, as the build writes them from types, compiled into checks of arguments. */

/** The part of JSON Schema that types lead to. */
export interface Schema {
  type?: string;
  enum?: unknown[];
  anyOf?: Schema[];
  items?: Schema | false;
  prefixItems?: Schema[];
  minItems?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | false;
  $ref?: string;
  $defs?: Record<string, Schema>;
  $comment?: string;
  title?: string;
  default?: unknown;
}

/** A check: returns the value, converted where its type wants it, or throws a `Mismatch`. */
export type Check = (value: any) => any;

/** On an integer: it arrives as a bigint. */
export const BIGINT = "bigint";

/** A value that does not fit; `path` leads to it from outside. */
export class Mismatch extends Error {
  readonly path: (string | number)[] = [];

  constructor(
    readonly expected: string,
    readonly value: unknown,
  ) {
    super(expected);
  }

  /** One line: `lines[2].price must be a number, not "x"`. */
  describe(root: string): string {
    const where = root + this.path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("");
    return `${where} must be ${this.expected}, not ${shown(this.value)}`;
  }
}

/** The check of a schema; null if everything passes. */
export function checkOf(schema: Schema, definitions: Record<string, Schema> = schema.$defs ?? {}): Check | null {
  return compile(schema, definitions, new Map());
}

function compile(schema: Schema, definitions: Record<string, Schema>, open: Map<string, Check>): Check | null {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.replace("#/$defs/", "");
    const known = open.get(name);
    if (known !== undefined) return known;
    let check: Check | null = null;
    open.set(name, (value) => (check === null ? value : check(value)));
    check = compile(definitions[name]!, definitions, open);
    return open.get(name)!;
  }
  const child = (schema: Schema) => compile(schema, definitions, open);
  if (schema.enum !== undefined) return oneOf(schema.enum);
  if (schema.anyOf !== undefined) return either(schema.anyOf.map(child));
  switch (schema.type) {
    case "string":
      return exactly("string", "a string");
    case "boolean":
      return exactly("boolean", "true or false");
    case "null":
      return (value) => {
        if (value !== null) throw new Mismatch("null", value);
        return value;
      };
    case "integer":
      return schema.$comment === BIGINT ? bigint : integer;
    case "number":
      return number;
    case "array":
      return schema.prefixItems === undefined ? array(schema.items ? child(schema.items) : null) : row(schema, child);
    case "object":
      return object(schema, child);
  }
  return null;
}

function exactly(type: string, expected: string): Check {
  return (value) => {
    if (typeof value !== type) throw new Mismatch(expected, value);
    return value;
  };
}

const EXACT = "between -(2^53 - 1) and 2^53 - 1, which a number holds exactly (or declare it as bigint)";

const integer: Check = (value) => {
  if (Number.isSafeInteger(value)) return value;
  if (typeof value === "bigint" || Number.isInteger(value)) throw new Mismatch(`an integer ${EXACT}`, value);
  throw new Mismatch("an integer", value);
};

const bigint: Check = (value) => {
  if (typeof value === "bigint") return value;
  if (Number.isInteger(value)) return BigInt(value);
  throw new Mismatch("an integer", value);
};

const number: Check = (value) => {
  if (typeof value === "number") return value;
  throw new Mismatch(typeof value === "bigint" ? `a number ${EXACT}` : "a number", value);
};

function oneOf(values: unknown[]): Check {
  const expected = `one of ${values.map(shown).join(", ")}`;
  return (value) => {
    if (!values.includes(value)) throw new Mismatch(expected, value);
    return value;
  };
}

function either(checks: (Check | null)[]): Check | null {
  if (checks.includes(null)) return null;
  return (value) => {
    const expected = new Set<string>();
    let deepest: Mismatch | null = null;
    for (const check of checks as Check[]) {
      try {
        return check(value);
      } catch (error) {
        if (!(error instanceof Mismatch)) throw error;
        expected.add(error.expected);
        if (error.path.length > (deepest?.path.length ?? 0)) deepest = error;
      }
    }
    // An object that almost fits explains more than the list of all that was possible.
    throw deepest ?? new Mismatch([...expected].join(" or "), value);
  };
}

function at(step: string | number, check: Check | null, value: any): any {
  if (check === null) return value;
  try {
    return check(value);
  } catch (error) {
    if (error instanceof Mismatch) error.path.unshift(step);
    throw error;
  }
}

function array(item: Check | null): Check {
  return (value) => {
    if (!Array.isArray(value)) throw new Mismatch("an array", value);
    if (item !== null) for (let index = 0; index < value.length; index++) value[index] = at(index, item, value[index]);
    return value;
  };
}

function row(schema: Schema, child: (schema: Schema) => Check | null): Check {
  const items = schema.prefixItems!.map(child);
  const rest = schema.items ? child(schema.items) : null;
  const [least, most] = [schema.minItems ?? 0, schema.items === false ? items.length : Infinity];
  const expected = least === most ? `an array of ${least}` : `an array of ${least} to ${most}`;
  return (value) => {
    if (!Array.isArray(value) || value.length < least || value.length > most) throw new Mismatch(expected, value);
    for (let index = 0; index < value.length; index++) {
      value[index] = at(index, index < items.length ? items[index]! : rest, value[index]);
    }
    return value;
  };
}

function object(schema: Schema, child: (schema: Schema) => Check | null): Check {
  const named = schema.title === undefined ? "an object" : `an object (${schema.title})`;
  const members = new Map(Object.entries(schema.properties ?? {}).map(([name, each]) => [name, child(each)]));
  const required = schema.required ?? [];
  const isClosed = schema.additionalProperties === false;
  const others = schema.additionalProperties ? child(schema.additionalProperties) : null;
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Mismatch(named, value);
    for (const name of Object.keys(value)) {
      const check = members.get(name);
      if (check === undefined && isClosed) throw new Mismatch(`${named} without the field "${name}"`, value);
      const converted = at(name, check === undefined ? others : check, value[name]);
      if (converted !== value[name]) value[name] = converted;
    }
    for (const name of required) {
      if (!Object.hasOwn(value, name)) throw new Mismatch(`${named} with the field "${name}"`, value);
    }
    return value;
  };
}

/** A value for a message: short, and as JSON writes it. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return "an object";
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length <= 42 ? text : `${text.slice(0, 39)}...`;
}
