import { open } from '#socket';

import { type Refusal, StyxError, refused } from './error.js';
import { parse, stringify } from './json.js';

/** What a function returned, and where its transaction stands in the order of all. */
export interface Reply {
  value: unknown;
  /** None of a function that only reads. */
  tid?: number | bigint | undefined;
  epoch?: number | bigint | undefined;
  /** Another request was under its idempotency key before, a repetition of this client's own included: this is that one's answer. */
  replayed?: boolean;
}

interface Line {
  id: number | null;
  ok?: unknown;
  ok_base64?: string;
  error?: Refusal;
  tid?: number | bigint;
  epoch?: number | bigint;
  replayed?: boolean;
}

interface Waiting {
  resolve: (reply: Reply) => void;
  reject: (error: StyxError) => void;
}

/** Requests that a server takes from one connection before it stops reading, by default. */
const CAPACITY = 4096;

export function bytes(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), char => char.charCodeAt(0));
}

/**
 * Many calls under way on one WebSocket, opened when somebody calls. When it breaks, every call on it ends with `CONNECTION`:
 * whoever made it knows whether it may be asked again.
 */
export class Pipeline {
  private socket: Promise<WebSocket> | undefined;
  private readonly waiting = new Map<number, Waiting>();
  private readonly room: (() => void)[] = [];
  private underWay = 0;
  private next = 0;
  private out: string[] = [];
  private closed = false;

  constructor(
    private readonly url: string,
    private readonly token: string | undefined,
    private readonly timeout: number,
  ) {}

  /** Makes one attempt at a call. What is asked for in one turn of the loop leaves in one message. */
  async call(request: object): Promise<Reply> {
    if (this.underWay >= CAPACITY) await new Promise<void>(done => this.room.push(done));
    this.underWay++;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const id = this.next++;
    try {
      const line = stringify({ id, ...request });
      const socket = await this.connected();
      return await new Promise<Reply>((resolve, reject) => {
        this.waiting.set(id, { resolve, reject });
        const late = () => reject(new StyxError('TIMEOUT', `no reply within ${this.timeout} ms`));
        timer = setTimeout(late, this.timeout);
        if (this.out.push(line) === 1) queueMicrotask(() => this.flush(socket));
      });
    } finally {
      clearTimeout(timer);
      this.waiting.delete(id);
      this.underWay--;
      this.room.shift()?.();
    }
  }

  /** Closes the connection; calls under way end with `CLOSED`. */
  async close(): Promise<void> {
    this.closed = true;
    const socket = await this.socket?.catch(() => undefined);
    this.lose(new StyxError('CLOSED', 'this client is closed'));
    if (!socket || socket.readyState === socket.CLOSED) return;
    await new Promise<void>(done => {
      socket.addEventListener('close', () => done());
      socket.close();
    });
  }

  private connected(): Promise<WebSocket> {
    if (this.closed) return Promise.reject(new StyxError('CLOSED', 'this client is closed'));
    this.socket ??= this.connect();
    return this.socket;
  }

  private connect(): Promise<WebSocket> {
    return new Promise((resolve, reject) => {
      const socket = open(this.url, this.token);
      let opened = false;
      let why = '';
      socket.addEventListener('open', () => {
        opened = true;
        resolve(socket);
      });
      socket.addEventListener('message', event => {
        try {
          for (const line of String(event.data).split('\n')) this.take(parse(line) as Line);
        } catch (error) {
          why = (error as Error).message;
          socket.close();
        }
      });
      socket.addEventListener('error', event => (why ||= (event as ErrorEvent).message ?? ''));
      socket.addEventListener('close', event => {
        this.socket = undefined;
        this.out = [];
        why ||= event.reason || 'the server closed it';
        if (opened) this.lose(new StyxError('CONNECTION', `the connection broke: ${why}`));
        else reject(this.unreachable(why));
      });
    });
  }

  private unreachable(why: string): StyxError {
    const status = /: (\d{3})$/.exec(why)?.[1];
    if (status === '401' || status === '403') {
      const code = status === '401' ? 'UNAUTHENTICATED' : 'FORBIDDEN';
      return new StyxError(code, `${this.url}: ${why}`, { hint: 'give the client a token', status: Number(status) });
    }
    return new StyxError('UNREACHABLE', `${this.url}: ${why}`, { hint: 'is the server running?' });
  }

  private flush(socket: WebSocket): void {
    const lines = this.out;
    this.out = [];
    // If it broke meanwhile, all who wait have been told.
    if (lines.length > 0 && socket.readyState === socket.OPEN) socket.send(lines.join('\n'));
  }

  private take(line: Line): void {
    if (typeof line?.id !== 'number') throw new StyxError('BAD_REPLY', 'a reply to nobody');
    const waiting = this.waiting.get(line.id);
    // Whoever asked may have given up.
    if (!waiting) return;
    if (line.error) return waiting.reject(refused(line.error));
    const value = line.ok_base64 === undefined ? (line.ok ?? null) : bytes(line.ok_base64);
    waiting.resolve({ value, tid: line.tid, epoch: line.epoch, ...(line.replayed && { replayed: true }) });
  }

  private lose(error: StyxError): void {
    for (const { reject } of [...this.waiting.values()]) reject(error);
    this.waiting.clear();
  }
}
