import { showsTokens } from '#socket';

import { type Refusal, StyxError, refused } from './error.js';
import { parse, stringify } from './json.js';
import { Pipeline, type Reply, bytes } from './pipeline.js';
import { type Retry, repeat } from './retry.js';

/** Arguments: in order, or by name. */
export type Arguments = readonly unknown[] | { readonly [name: string]: unknown };

export interface ClientOptions {
  /** Where calls go; `http://127.0.0.1:8080`. */
  ingressUrl?: string;
  /** Where state is looked at; the same host's port 9070. */
  adminUrl?: string;
  /** What is shown as `Authorization: Bearer`. */
  token?: string;
  /** Milliseconds for one attempt; 60,000. */
  timeout?: number;
  /** How requests are repeated. */
  retry?: Retry;
}

export interface CallOptions {
  /** Whoever asks under the same key again gets the same reply. `false`: none, and the call is not repeated where it may have happened. */
  idempotencyKey?: string | false;
  /** Another policy than the client's. */
  retry?: Retry;
}

/** How far a request is that was sent. */
export interface Ended {
  requestId: string;
  status: 'pending' | 'committed' | 'aborted';
  result?: unknown;
  error?: StyxError;
  tid?: number | bigint;
  epoch?: number | bigint;
}

/** A key of an operator, and what is stored there. */
export interface Stored {
  key: string;
  value: unknown;
}

interface Entry {
  key: string;
  value: unknown;
  encoding: 'json' | 'base64';
}

/**
 * A client of one server or cluster. All calls travel on one WebSocket; in a browser that shows a token, by `fetch`, since a page
 * cannot show one otherwise.
 */
export class Client {
  private readonly ingress: string;
  private readonly admin: string;
  private readonly timeout: number;
  private readonly retry: Retry;
  private readonly headers: Record<string, string>;
  private readonly pipeline: Pipeline | undefined;

  constructor({ ingressUrl = 'http://127.0.0.1:8080', adminUrl, token, timeout = 60_000, retry = {} }: ClientOptions = {}) {
    const ingress = new URL(ingressUrl);
    this.ingress = base(ingress);
    const admin = new URL(adminUrl ?? ingressUrl);
    if (adminUrl === undefined) admin.port = '9070';
    this.admin = base(admin);
    this.timeout = timeout;
    this.retry = retry;
    this.headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
    const url = `${this.ingress.replace(/^http/, 'ws')}/v1/ws?batch=true`;
    if (showsTokens || token === undefined) this.pipeline = new Pipeline(url, token, timeout);
  }

  /** An entity, whose functions can be called. */
  entity(app: string, operator: string, key: string): Entity {
    return new Entity(this, app, operator, key);
  }

  /**
   * Calls a function, and returns what it returns.
   *
   * @throws {StyxError} It refused, or was refused, or nobody could be asked for too long.
   */
  async call(app: string, operator: string, key: string, name: string, args: Arguments = [], options: CallOptions = {}): Promise<unknown> {
    return (await this.request(app, operator, key, name, args, options)).value;
  }

  /** The same; the reply says where the transaction stands in the order of all. */
  request(app: string, operator: string, key: string, name: string, args: Arguments = [], options: CallOptions = {}): Promise<Reply> {
    const idempotencyKey = options.idempotencyKey ?? crypto.randomUUID();
    const attempt = this.pipeline
      ? () => this.pipeline!.call({ app, operator, key, function: name, args, ...keyed('idempotency_key', idempotencyKey) })
      : () => this.callByFetch(path('call', app, operator, key, name), args, idempotencyKey);
    return repeat(options.retry ?? this.retry, idempotencyKey !== false, attempt);
  }

  /** Has a function called; returns the request's id once that is durable. {@link result} tells its end. */
  async send(app: string, operator: string, key: string, name: string, args: Arguments = [], idempotencyKey: string = crypto.randomUUID()): Promise<string> {
    const url = this.ingress + path('send', app, operator, key, name);
    const answer = await this.ask(url, { method: 'POST', body: stringify(args), headers: keyed('Idempotency-Key', idempotencyKey) });
    return String(answer['request_id']);
  }

  /** How far a request is that was sent. Waits for its end for so many milliseconds at most. */
  async result(requestId: string, wait = 0): Promise<Ended> {
    const query = wait > 0 ? `?wait=${Math.round(wait)}ms` : '';
    const answer = await this.ask(`${this.ingress}/v1/requests/${encodeURIComponent(requestId)}${query}`, {}, wait);
    const ended: Ended = { requestId, status: answer['status'] as Ended['status'] };
    if (answer['error']) ended.error = refused(answer['error'] as Refusal);
    if (answer['status'] === 'committed') {
      ended.result = typeof answer['result_base64'] === 'string' ? bytes(answer['result_base64']) : (answer['result'] ?? null);
    }
    if (answer['tid'] != null) ended.tid = answer['tid'] as number;
    if (answer['epoch'] != null) ended.epoch = answer['epoch'] as number;
    return ended;
  }

  /** The value of an entity as of the last durable epoch; `undefined` if there is none. */
  async state(app: string, operator: string, key: string): Promise<unknown> {
    try {
      return stored((await this.ask(this.admin + path('state', app, operator, key))) as unknown as Entry);
    } catch (error) {
      if (error instanceof StyxError && error.code === 'UNKNOWN_ENTITY') return undefined;
      throw error;
    }
  }

  /**
   * The entities of an operator whose keys begin with `prefix`, in key order. Pages are read one after the other: what commits
   * meanwhile may be seen in part.
   */
  async *scan(app: string, operator: string, prefix = ''): AsyncGenerator<Stored, void, undefined> {
    const query = new URLSearchParams({ prefix, limit: '1000' });
    for (;;) {
      const page = await this.ask(`${this.admin}${path('state', app, operator)}?${query}`);
      for (const entry of page['entries'] as Entry[]) yield { key: entry.key, value: stored(entry) };
      if (page['next'] == null) return;
      query.set('after', page['next'] as string);
    }
  }

  /** Closes the connection; calls under way end with `CLOSED`. */
  async close(): Promise<void> {
    await this.pipeline?.close();
  }

  private async callByFetch(where: string, args: Arguments, idempotencyKey: string | false): Promise<Reply> {
    const headers = keyed('Idempotency-Key', idempotencyKey);
    const answer = await this.fetch(this.ingress + where, { method: 'POST', body: stringify(args), headers });
    const number = (name: string) => {
      const text = answer.headers.get(name);
      return text === null ? undefined : (parse(text) as number | bigint);
    };
    const [tid, epoch] = [number('styx-tid'), number('styx-epoch')];
    const isJson = answer.headers.get('content-type')?.includes('json');
    const value = isJson ? parse(await answer.text()) : new Uint8Array(await answer.arrayBuffer());
    return { value, tid, epoch, ...(answer.headers.get('idempotent-replayed') === 'true' && { replayed: true }) };
  }

  private ask(url: string, options: RequestInit = {}, longer = 0): Promise<Record<string, unknown>> {
    // Sends have keys, and everything else only reads.
    return repeat(this.retry, true, async () => {
      const answer = await this.fetch(url, options, longer);
      return parse(await answer.text()) as Record<string, unknown>;
    });
  }

  private async fetch(url: string, options: RequestInit, longer = 0): Promise<Response> {
    const headers = { 'Content-Type': 'application/json', ...this.headers, ...(options.headers as Record<string, string>) };
    let answer: Response;
    try {
      answer = await fetch(url, { ...options, headers, signal: AbortSignal.timeout(this.timeout + longer) });
    } catch (error) {
      if ((error as Error).name === 'TimeoutError') throw new StyxError('TIMEOUT', `${url}: no answer in time`);
      const why = ((error as Error).cause as Error | undefined)?.message ?? (error as Error).message;
      const code = (((error as Error).cause as { code?: string } | undefined)?.code === 'ECONNREFUSED') ? 'UNREACHABLE' : 'CONNECTION';
      throw new StyxError(code, `${url}: ${why}`, { hint: 'is the server running?' });
    }
    if (answer.ok) return answer;
    const seconds = Number(answer.headers.get('retry-after') ?? NaN);
    const retryAfter = Number.isNaN(seconds) ? undefined : seconds * 1000;
    const body = await answer.text();
    let error: Refusal | undefined;
    try {
      error = (parse(body) as { error: Refusal }).error;
    } catch {
      // Of some proxy.
    }
    if (error) throw refused(error, answer.status, retryAfter);
    throw new StyxError('HTTP', `${url}: the server answered ${answer.status}`, { status: answer.status, retryAfter });
  }
}

/** An entity, whose functions can be called. */
export class Entity {
  constructor(
    private readonly client: Client,
    private readonly app: string,
    private readonly operator: string,
    private readonly key: string,
  ) {}

  /** Calls a function, and returns what it returns. */
  call(name: string, args: Arguments = [], options: CallOptions = {}): Promise<unknown> {
    return this.client.call(this.app, this.operator, this.key, name, args, options);
  }

  /** Has a function called; returns the request's id once that is durable. */
  send(name: string, args: Arguments = [], idempotencyKey?: string): Promise<string> {
    return this.client.send(this.app, this.operator, this.key, name, args, idempotencyKey);
  }

  /** The entity's value as of the last durable epoch; `undefined` if there is none. */
  state(): Promise<unknown> {
    return this.client.state(this.app, this.operator, this.key);
  }
}

function base(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/+$/, '')}`;
}

function path(...parts: string[]): string {
  return `/v1/${parts.map(encodeURIComponent).join('/')}`;
}

function keyed(name: string, key: string | false): Record<string, string> {
  return key === false ? {} : { [name]: key };
}

function stored(entry: Entry): unknown {
  return entry.encoding === 'base64' ? bytes(entry.value as string) : entry.value;
}
