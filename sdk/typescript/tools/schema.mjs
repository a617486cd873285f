/** Types of TypeScript as JSON Schema (2020-12). */

import ts from "typescript";

/** A type that no JSON can be of. */
export class Unsupported extends Error {}

/** Types that have members but no JSON form, and what to do instead. */
const CLASSES = {
  Date: "JSON has no dates: take a string or a number",
  Map: "a Map has no JSON form: use an object, as Record<string, …>",
  Set: "a Set has no JSON form: use an array",
  WeakMap: "a WeakMap has no JSON form",
  RegExp: "a RegExp has no JSON form: take a string",
  Promise: "a promise has no JSON form",
  Function: "a function has no JSON form",
  Error: "an Error has no JSON form: take a string",
  ArrayBuffer: "bytes have no JSON form: take an array of numbers or a string",
  Uint8Array: "bytes have no JSON form: take an array of numbers or a string",
};

export class SchemaWriter {
  constructor(checker, sdk) {
    this.checker = checker;
    this.sdk = sdk;
    this.definitions = {};
    /** Object types that are being written, and the names of those that contain themselves. */
    this.open = [];
    this.names = new Map();
    this.isResult = false;
    this.isOpen = false;
  }

  /** The schema of a parameter. */
  argument(type) {
    return this.whole(this.write(type));
  }

  /** The schema of a result: what a promise comes to, and null for nothing. */
  result(type) {
    this.isResult = true;
    return this.whole(this.write(this.checker.getAwaitedType(type) ?? type));
  }

  /** The schema of what is stored: members that nobody reads any more may be there. */
  state(type) {
    this.isOpen = true;
    return this.whole(this.write(type));
  }

  whole(schema) {
    return Object.keys(this.definitions).length > 0 ? { ...schema, $defs: this.definitions } : schema;
  }

  /** `isOptional`: undefined is not a value of it but its absence. */
  write(type, isOptional = false) {
    const { flags } = type;
    const F = ts.TypeFlags;
    if (this.isOfSdk(type, "Json")) return {};
    if (this.isOfSdk(type, "int")) return { type: "integer" };
    if (flags & (F.Any | F.Unknown)) return {};
    if (flags & (F.Undefined | F.Void | F.Null)) return { type: "null" };
    if (flags & F.Never) return {};
    if (flags & F.StringLiteral || (flags & F.NumberLiteral)) return { enum: [type.value] };
    if (flags & F.BooleanLiteral) return { enum: [type.intrinsicName === "true"] };
    if (type.isUnion()) return this.union(type, isOptional);
    if (flags & F.StringLike) return { type: "string" };
    if (flags & F.NumberLike) return { type: "number" };
    if (flags & F.BooleanLike) return { type: "boolean" };
    if (flags & F.BigIntLike) return { type: "integer", $comment: "bigint" };
    if (flags & F.ESSymbolLike) throw new Unsupported("a symbol has no JSON form");
    if (flags & F.NonPrimitive) return {};
    if (flags & F.TypeParameter) {
      const constraint = this.checker.getBaseConstraintOfType(type);
      return constraint ? this.write(constraint) : {};
    }
    if (type.isIntersection()) {
      // A branded text or number: the brand is for the compiler alone.
      const primitive = type.types.find((part) => part.flags & (F.StringLike | F.NumberLike | F.BooleanLike | F.BigIntLike));
      if (primitive) return this.write(primitive);
    }
    if (this.checker.isTupleType(type)) return this.tuple(type);
    if (this.checker.isArrayType(type)) return { type: "array", items: this.write(this.checker.getTypeArguments(type)[0]) };
    return this.object(type);
  }

  isOfSdk(type, name) {
    const declaration = type.aliasSymbol?.name === name && type.aliasSymbol.declarations?.[0];
    return Boolean(declaration) && declaration.getSourceFile().fileName.startsWith(`${this.sdk}/src/`);
  }

  union(type, isOptional) {
    // An optional parameter is not given at all; a result of undefined is null.
    const parts = type.types.filter((part) => (this.isResult && !isOptional) || !(part.flags & ts.TypeFlags.Undefined));
    const schemas = [];
    const literals = [];
    for (const part of parts) {
      const schema = this.write(part);
      if (Object.keys(schema).length === 0) return {};
      if (schema.enum) literals.push(...schema.enum);
      else if (!schemas.some((other) => JSON.stringify(other) === JSON.stringify(schema))) schemas.push(schema);
    }
    if (literals.includes(true) && literals.includes(false)) {
      for (const each of [true, false]) literals.splice(literals.indexOf(each), 1);
      schemas.push({ type: "boolean" });
    }
    if (literals.length > 0) schemas.push({ enum: literals });
    // null last, as people write it.
    schemas.sort((one, other) => Number(one.type === "null") - Number(other.type === "null"));
    return schemas.length === 1 ? schemas[0] : { anyOf: schemas };
  }

  tuple(type) {
    const { elementFlags, minLength, hasRestElement } = type.target;
    const types = this.checker.getTypeArguments(type);
    const prefixItems = [];
    let items = false;
    types.forEach((each, index) => {
      if (elementFlags[index] & ts.ElementFlags.Variable) items = this.write(each);
      else prefixItems.push(this.write(each));
    });
    const most = hasRestElement ? {} : { maxItems: prefixItems.length };
    return { type: "array", prefixItems, items, minItems: minLength, ...most };
  }

  object(type) {
    const name = type.aliasSymbol?.name ?? type.symbol?.name ?? "";
    if (name in CLASSES && this.isOfLibrary(type)) {
      // Dates write themselves as texts; they do not come back.
      if (name === "Date" && this.isResult) return { type: "string" };
      throw new Unsupported(CLASSES[name]);
    }
    if (type.getCallSignatures().length > 0) throw new Unsupported("a function has no JSON form");
    const known = this.names.get(type);
    if (known !== undefined) return { $ref: `#/$defs/${known}` };
    if (this.open.includes(type)) {
      const fresh = this.fresh(/^__/.test(name) || name === "" ? "Type" : name);
      this.names.set(type, fresh);
      return { $ref: `#/$defs/${fresh}` };
    }
    if (this.open.length > 30) throw new Unsupported("the type is nested too deep");
    this.open.push(type);
    const schema = this.members(type, name);
    this.open.pop();
    const given = this.names.get(type);
    if (given === undefined) return schema;
    this.definitions[given] = schema;
    return { $ref: `#/$defs/${given}` };
  }

  members(type, name) {
    const { checker } = this;
    const index = checker.getIndexInfoOfType(type, ts.IndexKind.String);
    const properties = {};
    const required = [];
    for (const property of checker.getPropertiesOfType(type)) {
      // Methods are not written; what a symbol names is not, either.
      if (property.flags & ts.SymbolFlags.Method || property.name.startsWith("__@")) continue;
      const member = checker.getTypeOfSymbol(property);
      const isOptional = Boolean(property.flags & ts.SymbolFlags.Optional);
      try {
        properties[property.name] = this.write(member, isOptional);
      } catch (error) {
        if (error instanceof Unsupported) error.message = `${property.name}: ${error.message}`;
        throw error;
      }
      if (!isOptional) required.push(property.name);
    }
    if (index) {
      const additionalProperties = this.write(index.type);
      if (Object.keys(properties).length === 0) return { type: "object", additionalProperties };
      return { ...titled(name), type: "object", properties, required, additionalProperties };
    }
    if (Object.keys(properties).length === 0) return { type: "object" };
    return { ...titled(name), type: "object", properties, required, ...(this.isOpen ? {} : { additionalProperties: false }) };
  }

  isOfLibrary(type) {
    return (type.symbol?.declarations ?? []).some((each) => /\/lib\.[\w.]*d\.ts$/.test(each.getSourceFile().fileName));
  }

  fresh(name) {
    const taken = new Set(this.names.values());
    let fresh = name;
    for (let count = 2; taken.has(fresh); count++) fresh = `${name}${count}`;
    return fresh;
  }
}

function titled(name) {
  return name === "" || name.startsWith("__") ? {} : { title: name };
}
