// Real servers, each in a directory of its own.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const STYX = resolve(process.env.STYX_BIN ?? join(import.meta.dirname, '../../target/release/styx'));
// What is compiled once for all of them.
const CACHE = join(import.meta.dirname, '../test-results/cache');
export const BUNDLE = join(import.meta.dirname, 'app/shop/target/shop.zip');
/** It calls the other one. */
export const BUYER = join(import.meta.dirname, 'app/buyer/target/buyer.zip');
/** A version of the shop, of nothing but its drawers, whose keys have a prefix. */
export const ROOMS = join(import.meta.dirname, 'app/rooms/target/rooms.zip');

interface Ready {
  ingress: string;
  admin: string;
  cluster: string;
}

/** A process of a server, which says when it is ready. */
class Process {
  private constructor(
    readonly child: ChildProcess,
    readonly ready: Ready,
  ) {}

  static start(args: string[]): Promise<Process> {
    const child = spawn(
      STYX,
      ['server', '--json', ...(args.includes('gateway') ? [] : ['--cache-dir', CACHE]), ...args],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    let told = '';
    child.stderr.on('data', (bytes: Buffer) => (told += bytes.toString()));
    return new Promise((done, fail) => {
      child.once('exit', code => fail(new Error(`styx server ${args.join(' ')} ended with ${code}: ${told}`)));
      createInterface(child.stdout).on('line', line => {
        const ready = JSON.parse(line) as Ready & { ready?: boolean };
        told += line;
        if (ready.ready) done(new Process(child, ready));
      });
    });
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise(done => this.child.once('exit', done));
    this.child.kill(signal);
    await ended;
  }
}

export class Server {
  private readonly directory = mkdtempSync(join(tmpdir(), 'styx-ui-'));
  private processes: Process[] = [];
  private workers = new Map<number, Process>();
  private gateway: Process | undefined;
  private options: string[] = [];
  admin = '';
  ingress = '';

  private constructor(private readonly token?: string) {}

  /** Everything in one process; with a token of the operator's, if there is to be one, and options of the server's. */
  static async single(token?: string, ...options: string[]): Promise<Server> {
    const server = new Server(token);
    server.options = options;
    await server.begin('127.0.0.1:0');
    return server;
  }

  private async begin(admin: string): Promise<void> {
    const args = [
      ...this.options,
      '--data-dir',
      join(this.directory, 'data'),
      '--ingress-addr',
      '127.0.0.1:0',
      '--admin-addr',
      admin,
    ];
    if (this.token) {
      const file = join(this.directory, 'token');
      writeFileSync(file, this.token);
      args.push('--admin-token-file', file);
    }
    const process = await Process.start(args);
    this.processes = [process];
    this.admin = `http://${process.ready.admin}`;
    this.ingress = `http://${process.ready.ingress}`;
  }

  /** A coordinator, with options of its own, so many workers, and a gateway. */
  static async cluster(workers: number, ...options: string[]): Promise<Server> {
    const server = new Server();
    server.options = options;
    try {
      await server.beginCluster(workers);
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  private async beginCluster(workers: number): Promise<void> {
    const at = (name: string) => ['--data-dir', join(this.directory, name)];
    const coordinator = await Process.start([
      ...['--role', 'coordinator', '--workers', String(workers), ...at('coordinator')],
      ...['--admin-addr', '127.0.0.1:0', '--cluster-addr', '127.0.0.1:0', ...this.options],
    ]);
    this.processes = [coordinator];
    this.admin = `http://${coordinator.ready.admin}`;
    for (let at = 1; at <= workers; at += 1) await this.beginWorker(at);
    const gateway = await Process.start([
      ...['--role', 'gateway', '--coordinator', coordinator.ready.cluster],
      ...['--admin-addr', '127.0.0.1:0', '--ingress-addr', '127.0.0.1:0'],
    ]);
    this.gateway = gateway;
    this.processes.push(gateway);
    this.ingress = `http://${gateway.ready.ingress}`;
    for (;;) {
      const cluster = (await (await fetch(`${this.admin}/v1/cluster`)).json()) as { live: boolean };
      if (cluster.live) return;
      await new Promise(done => setTimeout(done, 100));
    }
  }

  /** Begins a worker, or begins it again where it was. */
  async beginWorker(at: number): Promise<void> {
    const coordinator = this.processes[0]!.ready.cluster;
    const data = join(this.directory, `worker-${at}`);
    const args = [
      '--role',
      'worker',
      '--coordinator',
      coordinator,
      '--data-dir',
      data,
      '--cluster-addr',
      '127.0.0.1:0',
    ];
    const process = await Process.start([...args, '--threads', '1']);
    this.workers.set(at, process);
    this.processes.push(process);
  }

  async deploy(app: string, bundle = BUNDLE): Promise<void> {
    await promisify(execFile)(STYX, ['deploy', bundle, '--app', app, '--admin-url', this.admin], {
      env: { ...process.env, STYX_TOKEN: this.token },
    });
  }

  async call(path: string, args: unknown): Promise<unknown> {
    const headers = this.token ? { authorization: `Bearer ${this.token}` } : undefined;
    const response = await fetch(`${this.ingress}/v1/call/${path}`, {
      method: 'POST',
      body: JSON.stringify(args),
      headers,
    });
    return response.json();
  }

  /** Calls, and has it watched. */
  async watched(path: string, args: unknown): Promise<{ id: string; value: unknown }> {
    const response = await fetch(`${this.ingress}/v1/call/${path}`, {
      method: 'POST',
      body: JSON.stringify(args),
      headers: { 'styx-trace': '1' },
    });
    return { id: response.headers.get('styx-request-id') ?? '', value: await response.json() };
  }

  async issue(name: string, scopes: string[], expires_in: string | null = null, apps?: string[]): Promise<string> {
    const body = JSON.stringify({ name, scopes, expires_in, apps });
    const headers = { authorization: `Bearer ${this.token}` };
    const response = await fetch(`${this.admin}/v1/tokens`, { method: 'POST', body, headers });
    return ((await response.json()) as { token: string }).token;
  }

  /** Has many calls made, as lines of JSON in one request; says how many committed. */
  async batch(calls: object[]): Promise<number> {
    const body = calls.map(call => JSON.stringify(call)).join('\n');
    const response = await fetch(`${this.ingress}/v1/batch`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/x-ndjson' },
    });
    return (await response.text()).split('\n').filter(line => line && 'ok' in (JSON.parse(line) as object)).length;
  }

  /** Ends a worker as a crash does. */
  async killWorker(at: number): Promise<void> {
    await this.workers.get(at)!.stop('SIGKILL');
  }

  /** Ends it as a crash does. */
  async kill(): Promise<void> {
    await this.processes[0]!.stop('SIGKILL');
  }

  /** Ends a cluster's gateway as a crash does. */
  async killGateway(): Promise<void> {
    await this.gateway!.stop('SIGKILL');
  }

  /** Begins again where it was. */
  async restart(): Promise<void> {
    await this.begin(this.admin.replace('http://', ''));
  }

  async stop(): Promise<void> {
    for (const process of this.processes.toReversed()) await process.stop('SIGKILL');
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}
