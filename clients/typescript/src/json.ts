// JSON whose numbers keep their digits: integers that JavaScript's numbers cannot hold are bigints, both ways.
import { isInteger, parse as parseLossless, stringify as stringifyLossless } from 'lossless-json';

import { StyxError } from './error.js';

/** Sixteen digits in a row may be an integer that a number cannot hold; what is in between stays fast. */
const LONG = /\d{16}/;

function number(text: string): number | bigint {
  const value = Number(text);
  return isInteger(text) && !Number.isSafeInteger(value) ? BigInt(text) : value;
}

/** Reads JSON. */
export function parse(text: string): unknown {
  try {
    return LONG.test(text) ? parseLossless(text, undefined, number) : JSON.parse(text);
  } catch {
    throw new StyxError('BAD_REPLY', `this is no JSON: ${text.slice(0, 200)}`);
  }
}

/** Writes JSON; what JSON cannot say is refused instead of becoming `null`. */
export function stringify(value: unknown): string {
  let big = false;
  const check = (_: string, part: unknown): unknown => {
    if (typeof part === 'number' && !Number.isFinite(part)) throw new TypeError(`${part} cannot be written as JSON`);
    if (typeof part === 'bigint' || Object.is(part, -0)) {
      big = true;
      return 0;
    }
    return part;
  };
  const text = JSON.stringify(value, check);
  if (text === undefined) throw new TypeError('a value is missing');
  if (!big) return text;
  const zero = { test: (part: unknown) => Object.is(part, -0), stringify: () => '-0' };
  return stringifyLossless(value, undefined, undefined, [zero]) ?? text;
}
