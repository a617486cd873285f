/**
 * Texts as UTF-8 and back. QuickJS has no TextEncoder; what it has in C is base64, which is
 * several times faster than a loop in JavaScript.
 */

/** Few enough arguments for one call. */
const APPLY_MAX = 1024;

interface Native {
  btoa?: (text: string) => string;
  fromBase64?: (text: string) => Uint8Array;
}
const native: Native = {
  btoa: (globalThis as any).btoa,
  fromBase64: (Uint8Array as any).fromBase64?.bind(Uint8Array),
};
const hasBase64 = native.btoa !== undefined && native.fromBase64 !== undefined;

/** The UTF-8 of a text; lone surrogates throw. */
export function encode(text: string): Uint8Array {
  const bytes = /[^\x00-\x7f]/.test(text) ? unescape(encodeURIComponent(text)) : text;
  const length = bytes.length;
  if (length > 24 && hasBase64) return native.fromBase64!(native.btoa!(bytes));
  const out = new Uint8Array(length);
  for (let index = 0; index < length; index++) out[index] = bytes.charCodeAt(index);
  return out;
}

/** The text of some UTF-8; what is not UTF-8 throws. */
export function decode(bytes: Uint8Array): string {
  const length = bytes.length;
  let text: string;
  if (length <= APPLY_MAX) {
    text = String.fromCharCode.apply(null, bytes as unknown as number[]);
  } else {
    text = "";
    for (let start = 0; start < length; start += APPLY_MAX) {
      text += String.fromCharCode.apply(null, bytes.subarray(start, start + APPLY_MAX) as unknown as number[]);
    }
  }
  if (!/[\x80-\xff]/.test(text)) return text;
  try {
    return decodeURIComponent(escape(text));
  } catch {
    throw new SyntaxError("the bytes are no UTF-8");
  }
}
