// JSON with the digits of its numbers: a 64-bit integer of a guest must not be rounded by whoever shows it.

/** A number that JavaScript would change. */
export class ExactNumber {
  constructor(readonly text: string) {}
}

export type Json = null | boolean | number | string | ExactNumber | Json[] | { [name: string]: Json };

const LONG = /\d{16}|\d[eE]|\.\d{15}/;

export function parse(text: string): Json {
  return LONG.test(text) ? new Reader(text).document() : (JSON.parse(text) as Json);
}

/** As people read it; what fits into a line of this width is one. */
export const stringify = (value: Json, indent = '', width = 80): string => {
  if (value instanceof ExactNumber) return value.text;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    if (value.every(part => part === null || typeof part !== 'object' || part instanceof ExactNumber)) {
      const flat = `[${value.map(part => stringify(part)).join(', ')}]`;
      if (flat.length <= Math.max(width, 2)) return flat;
    }
    return `[\n${value.map(part => inner + stringify(part, inner, width)).join(',\n')}\n${indent}]`;
  }
  const parts = Object.entries(value).map(
    ([name, part]) => `${JSON.stringify(name)}: ${stringify(part, inner, width)}`,
  );
  if (parts.length === 0) return '{}';
  const flat = `{ ${parts.join(', ')} }`;
  return flat.length <= width && !flat.includes('\n')
    ? flat
    : `{\n${parts.map(part => inner + part).join(',\n')}\n${indent}}`;
};

class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

  document(): Json {
    const value = this.value();
    this.space();
    if (this.at < this.text.length) throw this.unexpected();
    return value;
  }

  private value(): Json {
    this.space();
    switch (this.text[this.at]) {
      case '{':
        return this.object();
      case '[':
        return this.array();
      case '"':
        return this.string();
      default:
        return this.word();
    }
  }

  private object(): Json {
    // Without a prototype: a guest may call its field __proto__.
    const object = Object.create(null) as { [name: string]: Json };
    this.at += 1;
    for (let first = true; !this.ends('}'); first = false) {
      if (!first) this.take(',');
      this.space();
      const name = this.string();
      this.take(':');
      object[name] = this.value();
    }
    return object;
  }

  private array(): Json {
    const array: Json[] = [];
    this.at += 1;
    for (let first = true; !this.ends(']'); first = false) {
      if (!first) this.take(',');
      array.push(this.value());
    }
    return array;
  }

  private string(): string {
    const from = this.at;
    if (this.text[from] !== '"') throw this.unexpected();
    let to = from + 1;
    while (to < this.text.length && this.text[to] !== '"') to += this.text[to] === '\\' ? 2 : 1;
    this.at = to + 1;
    return JSON.parse(this.text.slice(from, this.at)) as string;
  }

  private word(): Json {
    const word = /^[-+.\w]+/.exec(this.text.slice(this.at, this.at + 4096))?.[0] ?? '';
    const value = JSON.parse(word || this.text.slice(this.at, this.at + 8)) as Json;
    this.at += word.length;
    // 1.0 is 1, as it is to the other reader: figures of the server are such.
    const digits = word.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
    return typeof value === 'number' && String(value) !== digits ? new ExactNumber(word) : value;
  }

  private ends(char: string): boolean {
    this.space();
    if (this.at >= this.text.length) throw this.unexpected();
    if (this.text[this.at] !== char) return false;
    this.at += 1;
    return true;
  }

  private take(char: string): void {
    this.space();
    if (this.text[this.at] !== char) throw this.unexpected();
    this.at += 1;
  }

  private space(): void {
    while (' \n\r\t'.includes(this.text[this.at] ?? 'x')) this.at += 1;
  }

  private unexpected(): SyntaxError {
    return new SyntaxError(`JSON is wrong at character ${this.at}`);
  }
}
