// A real server, with an app, in a directory of its own.
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

import type { ClientOptions } from 'styx-client';

const ROOT = resolve(fileURLToPath(import.meta.url), '../../../..');
const STYX = process.env['STYX_BIN'] ?? join(ROOT, 'target/release/styx');

export class Server {
  private readonly directory = mkdtempSync(join(tmpdir(), 'styx-client-'));
  private process!: ChildProcess;
  private ingress = '127.0.0.1:0';
  private admin = '127.0.0.1:0';

  static async start(): Promise<Server> {
    const server = new Server();
    await server.begin();
    const source = join(ROOT, 'guests/shopping-cart-c');
    await promisify(execFile)(STYX, ['deploy', source, '--app', 'shop', '--admin-url', server.urls.adminUrl]);
    return server;
  }

  /** The client that is generated for the app, compiled strictly beside these tests. */
  async generated(): Promise<any> {
    const here = dirname(fileURLToPath(import.meta.url));
    const file = join(here, 'shop.ts');
    const generate = ['generate', 'client', 'shop', '--lang', 'typescript', '--output', file];
    await promisify(execFile)(STYX, [...generate, '--admin-url', this.urls.adminUrl]);
    const compile = ['--ignoreConfig', '--strict', '--noUncheckedIndexedAccess', '--skipLibCheck', '--target', 'es2022', '--module', 'nodenext', file];
    const tsc = join(here, '../node_modules/typescript/bin/tsc');
    await promisify(execFile)(process.execPath, [tsc, ...compile]).catch((error: { stdout: string }) => assert.fail(error.stdout));
    return import(pathToFileURL(join(here, 'shop.js')).href);
  }

  /** At the same addresses as before. */
  async begin(): Promise<void> {
    const addresses = ['--ingress-addr', this.ingress, '--admin-addr', this.admin];
    const child = spawn(STYX, ['server', '--json', '--data-dir', join(this.directory, 'data'), ...addresses], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let told = '';
    child.stderr.on('data', (bytes: Buffer) => (told += bytes.toString()));
    this.process = child;
    await new Promise<void>((done, fail) => {
      child.once('exit', code => fail(new Error(`the server ended with ${code}: ${told}`)));
      createInterface(child.stdout).on('line', line => {
        const ready = JSON.parse(line) as { ready?: boolean; ingress: string; admin: string };
        if (!ready.ready) return;
        ({ ingress: this.ingress, admin: this.admin } = ready);
        done();
      });
    });
  }

  get urls(): Required<Pick<ClientOptions, 'ingressUrl' | 'adminUrl'>> {
    return { ingressUrl: `http://${this.ingress}`, adminUrl: `http://${this.admin}` };
  }

  signal(signal: NodeJS.Signals): void {
    this.process.kill(signal);
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const ended = new Promise(done => this.process.once('exit', done));
    this.process.kill(signal);
    await ended;
  }

  async end(): Promise<void> {
    await this.stop();
    rmSync(this.directory, { recursive: true });
  }
}
