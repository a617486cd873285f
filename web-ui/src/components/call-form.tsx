// A form made of a function's schema, which calls it and shows what it came to.
import { useId, useState, type FormEvent } from 'react';
import { Link } from 'wouter';
import { ApiError, path, request, type Schemas } from '../api/client';
import { useChange, useIdentity, useMay } from '../api/hooks';
import { line } from '../lib/format';
import { parse, type Json } from '../lib/json';
import { example, inputFor, typeOf } from '../lib/schema';
import type { Target } from '../lib/snippets';
import { Button, Card, ErrorNotice, Notice, Tag } from './basics';
import { ingressOf, Snippets } from './snippets';
import { Text, Value } from './value';

type Parameter = Schemas['ParameterView'];

interface Called extends Call {
  value: Json | undefined;
  text: string;
  tid: string | null;
  epoch: string | null;
  id: string | null;
  took: number;
}

interface Call {
  to: string;
  body: string;
  /** Idempotency key; none for what changes nothing. */
  once: string;
  /** The transaction that it was when it was sent before, if it was. */
  before?: string | null;
}

async function call({ to, body, once, before }: Call): Promise<Called> {
  const started = performance.now();
  const response = await request('POST', to, body, {
    'content-type': 'application/json',
    'styx-trace': '1',
    ...(once && { 'idempotency-key': once }),
  });
  const text = await response.text();
  const took = performance.now() - started;
  let value: Json | undefined;
  try {
    value = parse(text);
  } catch {
    // A function may return anything.
  }
  const told = (name: string) => response.headers.get(`styx-${name}`);
  return { to, body, once, before, value, text, tid: told('tid'), epoch: told('epoch'), id: told('request-id'), took };
}

export function CallForm({
  app,
  operator,
  fn,
}: {
  app: string;
  operator: Schemas['OperatorView'];
  fn: Schemas['FunctionView'];
}) {
  const [key, setKey] = useState('');
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    Object.fromEntries(fn.parameters.map(parameter => [parameter.name, start(parameter)])),
  );
  const [wrong, setWrong] = useState('');
  const [fixed, setFixed] = useState('');
  const identity = useIdentity();
  const { why } = useMay('invoke', app);
  const change = useChange(call, 'state', 'cluster', 'requests', 'traffic');
  const to = path('v1', 'call', app, operator.name, key, fn.name);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    try {
      const body = args(fn.parameters, texts);
      setWrong('');
      change.mutate({ to, body, once: fn.read_only ? '' : fixed || fresh() });
    } catch (error) {
      setWrong((error as Error).message);
    }
  };
  const target: Target | undefined = identity.data && {
    url: ingressOf(identity.data, window.location),
    app,
    operator: operator.name,
    key: key || 'KEY',
    fn: fn.name,
    args: given(fn.parameters, texts),
    token: identity.data.known,
  };
  return (
    <Card
      title={
        <bdi>
          {line(operator.name)}.{line(fn.name)}
        </bdi>
      }
      note={fn.read_only ? <Tag kind="accent">reads</Tag> : undefined}
    >
      {fn.doc && <p className="doc">{line(fn.doc)}</p>}
      <form onSubmit={submit} className="call">
        <label className="field">
          <span>key {operator.key_prefix && <i>{line(operator.key_prefix)}:…</i>}</span>
          <input
            value={key}
            onChange={event => setKey(event.target.value)}
            required
            autoComplete="off"
            spellCheck={false}
          />
        </label>
        {fn.parameters.map(parameter => (
          <Argument
            key={parameter.name}
            parameter={parameter}
            text={texts[parameter.name] ?? ''}
            onChange={text => setTexts({ ...texts, [parameter.name]: text })}
          />
        ))}
        {wrong && <Notice kind="bad" title={line(wrong)} />}
        {!fn.read_only && (
          <label className="field">
            <span>
              Idempotency key <span className="quiet">a fresh one for each call, unless you give one</span>
            </span>
            <input
              value={fixed}
              maxLength={200}
              autoComplete="off"
              spellCheck={false}
              onChange={event => setFixed(event.target.value)}
            />
          </label>
        )}
        <Button type="submit" kind="primary" denied={why} busy={change.isPending}>
          Call
        </Button>
      </form>
      <div aria-live="polite">
        {change.error && <Failed error={change.error} />}
        {change.data && !change.isPending && (
          <div className="result">
            <p>
              <Tag kind="good">{fn.read_only ? 'answered' : 'committed'}</Tag>{' '}
              <span className="quiet">
                {change.data.tid && (
                  <>
                    transaction {change.data.tid}, epoch {change.data.epoch},{' '}
                  </>
                )}
                {change.data.took.toFixed(1)} ms with the way here
              </span>
            </p>
            {change.data.value === undefined ? <Text text={change.data.text} /> : <Value value={change.data.value} />}
            {change.data.once && (
              <p className="quiet once">
                Sent under the key <code>{line(change.data.once)}</code>
                {change.data.before && (
                  <>
                    {change.data.before === change.data.tid
                      ? ' again: this is the answer of before, nothing has happened twice'
                      : ' again'}
                  </>
                )}
                <Button
                  kind="quiet"
                  denied={why}
                  onClick={() => {
                    const { to, body, once, tid } = change.data;
                    change.mutate({ to, body, once, before: tid });
                  }}
                >
                  Send it again under this key
                </Button>
              </p>
            )}
            <p>
              <Link href={`/state/${[app, operator.name, key].map(encodeURIComponent).join('/')}`}>
                What is in <bdi>{line(key)}</bdi> now
              </Link>
              <HowItWent id={change.data.id} />
            </p>
          </div>
        )}
      </div>
      {target && <Snippets target={target} />}
    </Card>
  );
}

/** A key that nobody has used. */
const fresh = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map(byte => byte.toString(16).padStart(2, '0')).join('');

function Failed({ error }: { error: ApiError }) {
  return (
    <div className="result">
      <ErrorNotice error={error} />
      {error.requestId && (
        <p>
          <Link href={path('requests', error.requestId)}>How it went</Link>
        </p>
      )}
    </div>
  );
}

function HowItWent({ id }: { id: string | null | undefined }) {
  if (!id) return null;
  return (
    <>
      {' · '}
      <Link href={path('requests', id)}>How it went</Link>
    </>
  );
}

/** Text of an input to begin with; nothing where nothing need be given. */
function start(parameter: Parameter): string {
  if (!parameter.required) return '';
  const input = inputFor(parameter.schema);
  if (input.kind === 'text') return '';
  if (input.kind === 'choice') return '0';
  return JSON.stringify(example(parameter.schema), null, 1);
}

/** Arguments by name, as text, so that numbers keep their digits. */
function args(parameters: Parameter[], texts: Record<string, string>): string {
  const given = parameters.flatMap(parameter => {
    const text = texts[parameter.name] ?? '';
    const input = inputFor(parameter.schema);
    if (text === '' && !parameter.required) return [];
    return [`${JSON.stringify(parameter.name)}:${argument(parameter.name, input, text)}`];
  });
  return `{${given.join(',')}}`;
}

/** The same for programs; what is no JSON yet is whatever would do. */
function given(parameters: Parameter[], texts: Record<string, string>): Target['args'] {
  const all = parameters.flatMap((parameter): [string, Json][] => {
    const text = texts[parameter.name] ?? '';
    const input = inputFor(parameter.schema);
    if (text === '' && !parameter.required) return [];
    try {
      return [[parameter.name, parse(argument(parameter.name, input, text))]];
    } catch {
      return [[parameter.name, example(parameter.schema) as Json]];
    }
  });
  return Object.fromEntries(all);
}

function argument(name: string, input: ReturnType<typeof inputFor>, text: string): string {
  if (input.kind === 'text') return JSON.stringify(text);
  if (input.kind === 'choice') return JSON.stringify(input.values[Number(text)]);
  try {
    parse(text);
  } catch {
    throw new Error(
      `${name} is no JSON: ${text.trim() === '' ? 'it is empty' : 'see whether brackets and quotes match'}`,
    );
  }
  return text;
}

function Argument({
  parameter,
  text,
  onChange,
}: {
  parameter: Parameter;
  text: string;
  onChange: (text: string) => void;
}) {
  const id = useId();
  const input = inputFor(parameter.schema);
  const common = { id, value: text, required: parameter.required && input.kind !== 'text' };
  return (
    <div className="field">
      <label htmlFor={id}>
        {line(parameter.name)} <i>{typeOf(parameter.schema)}</i>{' '}
        {!parameter.required && <span className="quiet">may be left out</span>}
      </label>
      {input.kind === 'boolean' || input.kind === 'choice' ? (
        <select {...common} onChange={event => onChange(event.target.value)}>
          {!parameter.required && <option value="">–</option>}
          {input.kind === 'boolean'
            ? ['false', 'true'].map(value => <option key={value}>{value}</option>)
            : input.values.map((value, index) => (
                <option key={index} value={index}>
                  {String(value)}
                </option>
              ))}
        </select>
      ) : input.kind === 'json' ? (
        <textarea
          {...common}
          rows={Math.min(12, Math.max(2, text.split('\n').length))}
          spellCheck={false}
          onChange={event => onChange(event.target.value)}
        />
      ) : (
        <input
          {...common}
          inputMode={input.kind === 'number' ? 'decimal' : 'text'}
          pattern={
            input.kind === 'number'
              ? input.integer
                ? '-?[0-9]+'
                : '-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?'
              : undefined
          }
          title={input.kind === 'number' ? 'a number' : undefined}
          autoComplete="off"
          spellCheck={false}
          onChange={event => onChange(event.target.value)}
        />
      )}
    </div>
  );
}
