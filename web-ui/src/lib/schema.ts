// JSON Schemas of parameters: how they read, and which input is for which.

type Node = { [name: string]: unknown };

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && !Array.isArray(value);

/** The schema that a reference means; the root is where `#` leads. */
export function resolve(schema: unknown, root: unknown = schema): Node {
  for (let depth = 0; depth < 16 && isNode(schema) && typeof schema.$ref === 'string'; depth += 1) {
    let found: unknown = root;
    for (const part of schema.$ref.split('/').slice(1)) {
      found = isNode(found) ? found[decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')] : undefined;
    }
    schema = found;
  }
  return isNode(schema) ? schema : {};
}

/** A schema in a few words, such as `string[]` or `{ name, price? }`. */
export function typeOf(schema: unknown, root: unknown = schema, depth = 0): string {
  const node = resolve(schema, root);
  if (depth > 3) return '…';
  const inner = (part: unknown) => typeOf(part, root, depth + 1);
  if (Array.isArray(node.enum))
    return node.enum
      .map(value => JSON.stringify(value))
      .join(' | ')
      .slice(0, 60);
  if ('const' in node) return JSON.stringify(node.const);
  const either = node.anyOf ?? node.oneOf;
  if (Array.isArray(either)) return [...new Set(either.map(inner))].join(' | ');
  if (Array.isArray(node.type)) return node.type.join(' | ');
  switch (node.type) {
    case 'array':
      return node.items ? `${inner(node.items)}[]` : 'array';
    case 'object': {
      if (isNode(node.properties)) {
        const required = Array.isArray(node.required) ? node.required : [];
        const names = Object.keys(node.properties).map(name => (required.includes(name) ? name : `${name}?`));
        return `{ ${names.join(', ')} }`;
      }
      return isNode(node.additionalProperties) ? `{ …: ${inner(node.additionalProperties)} }` : 'object';
    }
    case undefined:
      return 'any';
    default:
      return String(node.type);
  }
}

export type Input =
  | { kind: 'text' }
  | { kind: 'number'; integer: boolean }
  | { kind: 'boolean' }
  | { kind: 'choice'; values: unknown[] }
  | { kind: 'json' };

export function inputFor(schema: unknown): Input {
  const node = resolve(schema, schema);
  if (Array.isArray(node.enum)) return { kind: 'choice', values: node.enum };
  switch (node.type) {
    case 'string':
      return { kind: 'text' };
    case 'integer':
    case 'number':
      return { kind: 'number', integer: node.type === 'integer' };
    case 'boolean':
      return { kind: 'boolean' };
    default:
      return { kind: 'json' };
  }
}

/** Something that a schema takes, to begin with. */
export function example(schema: unknown, root: unknown = schema, depth = 0): unknown {
  const node = resolve(schema, root);
  if ('default' in node) return node.default;
  if (Array.isArray(node.examples) && node.examples.length) return node.examples[0];
  if (Array.isArray(node.enum)) return node.enum[0];
  if ('const' in node) return node.const;
  const either = node.anyOf ?? node.oneOf;
  if (Array.isArray(either) && depth < 4) return example(either[0], root, depth + 1);
  switch (Array.isArray(node.type) ? node.type[0] : node.type) {
    case 'string':
      return '';
    case 'integer':
    case 'number':
      return 0;
    case 'boolean':
      return false;
    case 'null':
      return null;
    case 'array':
      return [];
    case 'object': {
      const properties = isNode(node.properties) && depth < 4 ? node.properties : {};
      return Object.fromEntries(
        Object.entries(properties).map(([name, part]) => [name, example(part, root, depth + 1)]),
      );
    }
    default:
      return null;
  }
}
