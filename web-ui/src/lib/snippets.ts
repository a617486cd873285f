// The same call from programs: with the clients that there are, and over HTTP where there is none.
import { ExactNumber, stringify, type Json } from './json';

export interface Target {
  /** Where calls are taken. */
  url: string;
  app: string;
  operator: string;
  key: string;
  fn: string;
  /** Arguments by name. */
  args: { [name: string]: Json };
  /** Whether a token is asked for: programs have it from the environment. */
  token: boolean;
}

export const LANGUAGES = ['Shell', 'curl', 'Python', 'TypeScript', 'Rust', 'Go', 'C'] as const;
export type Language = (typeof LANGUAGES)[number];

export function snippet(language: Language, target: Target): string {
  switch (language) {
    case 'Shell':
      return shell(target);
    case 'curl':
      return curl(target);
    case 'Python':
      return python(target);
    case 'TypeScript':
      return typescript(target);
    case 'Rust':
      return rust(target);
    case 'Go':
      return go(target);
    case 'C':
      return c(target);
  }
}

/** A path of names, whatever is in them. */
const pathOf = ({ app, operator, key, fn }: Target): string =>
  [app, operator, key, fn].map(encodeURIComponent).join('/');

const urlOf = (target: Target): string => `${target.url}/v1/call/${pathOf(target)}`;

/** JSON on one line. */
const compact = (value: Json): string => stringify(value).replace(/\n\s*/g, ' ');

/** A word of a shell's, quoted where it has to be. */
export const quoted = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** A string literal that is one in all the languages here: JSON escapes what is not to be seen, and they know how. */
const literal = (text: string): string => JSON.stringify(text);

function shell(target: Target): string {
  const { url, args, token } = target;
  return [
    ...(token ? ['export STYX_TOKEN=…'] : []),
    ...(url === 'http://127.0.0.1:8080' ? [] : [`export STYX_INGRESS_URL=${quoted(url)}`]),
    `styx call ${quoted(pathOf(target))} ${quoted(compact(args))}`,
  ].join('\n');
}

function curl(target: Target): string {
  return [
    `curl -X POST ${quoted(urlOf(target))}`,
    ...(target.token ? [`-H "Authorization: Bearer $STYX_TOKEN"`] : []),
    `-H "Idempotency-Key: $(uuidgen)"`,
    `-d ${quoted(compact(target.args))}`,
  ].join(' \\\n  ');
}

// Names that a call has parameters for itself, or that are none.
const PYTHON = new Set(
  (
    'self app operator key function ' +
    'False None True and as assert async await break class continue def del elif else except finally for from global if ' +
    'import in is lambda nonlocal not or pass raise return try while with yield'
  ).split(' '),
);

function python({ url, app, operator, key, fn, args, token }: Target): string {
  const names = Object.keys(args);
  const target = [app, operator, key, fn].map(literal).join(', ');
  const byName = names.every(name => /^[A-Za-z_]\w*$/.test(name) && !PYTHON.has(name));
  const call = byName
    ? `styx.call(${[target, ...names.map(name => `${name}=${pythonOf(args[name]!)}`)].join(', ')})`
    : `styx.request(${target}, ${pythonOf(args)}).value`;
  return [
    '# pip install ./clients/python',
    ...(token ? ['import os', ''] : []),
    'from styx_client import Client',
    '',
    `with Client(${literal(url)}${token ? ', token=os.environ["STYX_TOKEN"]' : ''}) as styx:`,
    `    print(${call})`,
  ].join('\n');
}

function pythonOf(value: Json): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (value instanceof ExactNumber || typeof value !== 'object') return compact(value);
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(', ')}]`;
  return `{${Object.entries(value)
    .map(([name, part]) => `${literal(name)}: ${pythonOf(part)}`)
    .join(', ')}}`;
}

function typescript({ url, app, operator, key, fn, args, token }: Target): string {
  const target = [app, operator, key, fn].map(literal).join(', ');
  return [
    '// npm install ./clients/typescript',
    "import { Client } from 'styx-client';",
    '',
    `const styx = new Client({ ingressUrl: ${literal(url)}${token ? ', token: process.env.STYX_TOKEN!' : ''} });`,
    `console.log(await styx.call(${target}, ${typescriptOf(args)}));`,
    'await styx.close();',
  ].join('\n');
}

function typescriptOf(value: Json): string {
  // What a number cannot hold is a bigint.
  if (value instanceof ExactNumber) return /^-?\d+$/.test(value.text) ? `${value.text}n` : value.text;
  if (value === null || typeof value !== 'object') return compact(value);
  if (Array.isArray(value)) return `[${value.map(typescriptOf).join(', ')}]`;
  const parts = Object.entries(value).map(([name, part]) => {
    // Written as it is, it would be the prototype.
    const written = /^[A-Za-z_$][\w$]*$/.test(name) && name !== '__proto__' ? name : literal(name);
    return `${name === '__proto__' ? `[${written}]` : written}: ${typescriptOf(part)}`;
  });
  return parts.length ? `{ ${parts.join(', ')} }` : '{}';
}

function rust({ url, app, operator, key, fn, args, token }: Target): string {
  const target = [app, operator, key, fn].map(rustLiteral).join(', ');
  const written = rustOf(args);
  return [
    '// styx-client = { path = "host/client" }, serde_json, and tokio with its macros',
    ...(written.startsWith('json!') ? ['use serde_json::json;'] : []),
    'use styx_client::Client;',
    '',
    '#[tokio::main]',
    'async fn main() -> Result<(), Box<dyn std::error::Error>> {',
    token
      ? `    let styx = Client::builder(${rustLiteral(url)}).token(std::env::var("STYX_TOKEN")?).build()?;`
      : `    let styx = Client::new(${rustLiteral(url)})?;`,
    `    let args = ${written};`,
    `    println!("{}", styx.call(${target}, args).await?);`,
    '    Ok(())',
    '}',
  ].join('\n');
}

const rustLiteral = (text: string): string =>
  literal(text).replace(/\\\\|\\u([0-9a-f]{4})|\\b|\\f/g, (found, code: string | undefined) =>
    code ? `\\u{${code}}` : ({ '\\b': '\\x08', '\\f': '\\x0c' }[found] ?? found),
  );

function rustOf(args: Json): string {
  const hasDigits = (value: Json): boolean =>
    value instanceof ExactNumber ||
    (typeof value === 'object' && value !== null && Object.values(value).some(hasDigits));
  if (hasDigits(args)) return `serde_json::from_str(${rustLiteral(compact(args))})?`;
  const json = (value: Json): string => {
    if (typeof value === 'string') return rustLiteral(value);
    if (value === null || typeof value !== 'object' || value instanceof ExactNumber) return compact(value);
    if (Array.isArray(value)) return `[${value.map(json).join(', ')}]`;
    return `{${Object.entries(value)
      .map(([name, part]) => `${rustLiteral(name)}: ${json(part)}`)
      .join(', ')}}`;
  };
  return `json!(${json(args)})`;
}

function go(target: Target): string {
  return [
    'package main',
    '',
    'import (',
    '\t"fmt"',
    '\t"io"',
    '\t"net/http"',
    ...(target.token ? ['\t"os"'] : []),
    '\t"strings"',
    ')',
    '',
    'func main() {',
    `\trequest, err := http.NewRequest("POST", ${literal(urlOf(target))},`,
    `\t\tstrings.NewReader(${literal(compact(target.args))}))`,
    '\tif err != nil {',
    '\t\tpanic(err)',
    '\t}',
    ...(target.token ? ['\trequest.Header.Set("Authorization", "Bearer "+os.Getenv("STYX_TOKEN"))'] : []),
    '\t// One effect, however often it is sent under this key: give each call its own.',
    '\trequest.Header.Set("Idempotency-Key", "change-me")',
    '\tresponse, err := http.DefaultClient.Do(request)',
    '\tif err != nil {',
    '\t\tpanic(err)',
    '\t}',
    '\tdefer response.Body.Close()',
    '\tbody, err := io.ReadAll(response.Body)',
    '\tif err != nil {',
    '\t\tpanic(err)',
    '\t}',
    '\tfmt.Println(response.Status, string(body))',
    '}',
  ].join('\n');
}

function c(target: Target): string {
  return [
    '// cc call.c -lcurl',
    '#include <curl/curl.h>',
    ...(target.token ? ['#include <stdio.h>', '#include <stdlib.h>'] : ['#include <stdio.h>']),
    '',
    'int main(void) {',
    '    CURL *curl = curl_easy_init();',
    '    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");',
    '    // One effect, however often it is sent under this key: give each call its own.',
    '    headers = curl_slist_append(headers, "Idempotency-Key: change-me");',
    ...(target.token
      ? [
          '    char shown[512];',
          '    snprintf(shown, sizeof shown, "Authorization: Bearer %s", getenv("STYX_TOKEN"));',
          '    headers = curl_slist_append(headers, shown);',
        ]
      : []),
    `    curl_easy_setopt(curl, CURLOPT_URL, ${literal(urlOf(target))});`,
    '    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);',
    `    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, ${cLiteral(compact(target.args))});`,
    '    CURLcode code = curl_easy_perform(curl); // the answer goes to standard output',
    '    if (code != CURLE_OK) fprintf(stderr, "%s\\n", curl_easy_strerror(code));',
    '    curl_slist_free_all(headers);',
    '    curl_easy_cleanup(curl);',
    '    return code != CURLE_OK;',
    '}',
  ].join('\n');
}

/** JSON holds no control characters, so that quotes and backslashes are all that C must be told of; and trigraphs. */
const cLiteral = (json: string): string => literal(json).replaceAll('??', '?\\?');
