// What a program that calls Styx relies on, against a real server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Client, StyxError } from 'styx-client';

import { parse, stringify } from '../dist/json.js';
import { Server } from './server.js';

let server: Server;
let styx: Client;

before(async () => {
  server = await Server.start();
  styx = new Client(server.urls);
});

after(async () => {
  await styx.close();
  await server.end();
});

const code = (expected: string) => (error: unknown) => error instanceof StyxError && error.code === expected;

test('a call returns what the function returns', async () => {
  assert.equal(await styx.call('shop', 'item', 'apple', 'insert', [5, 30]), null);
  assert.deepEqual(await styx.state('shop', 'item', 'apple'), [5, 30]);
  await styx.entity('shop', 'item', 'apple').call('take', { quantity: 2 });
  assert.deepEqual(await styx.entity('shop', 'item', 'apple').state(), [3, 30]);
  assert.equal(await styx.state('shop', 'item', 'nothing'), undefined);
  const [one, two] = [await styx.request('shop', 'item', 'apple', 'take', [1]), await styx.request('shop', 'item', 'apple', 'take', [1])];
  assert.ok(one.tid! < two.tid! && one.epoch! <= two.epoch!);
});

test('a refusal is an error, and nothing has happened', async () => {
  await styx.call('shop', 'item', 'plum', 'insert', [1, 10]);
  await assert.rejects(styx.call('shop', 'item', 'plum', 'take', [2]), error => {
    assert.ok(error instanceof StyxError && error.isAborted && error.reason.includes('plum'));
    return true;
  });
  assert.deepEqual(await styx.state('shop', 'item', 'plum'), [1, 10]);
  await assert.rejects(styx.call('shop', 'item', 'plum', 'tkae'), code('UNKNOWN_FUNCTION'));
  await assert.rejects(styx.call('shop', 'itme', 'plum', 'take'), code('UNKNOWN_OPERATOR'));
  await assert.rejects(styx.call('shopp', 'item', 'plum', 'take'), code('UNKNOWN_APP'));
  await assert.rejects(styx.call('shop', 'item', 'plum', 'take', ['many']), code('BAD_ARGUMENTS'));
});

test('under one key a call happens once', async () => {
  await styx.call('shop', 'item', 'fig', 'insert', [10, 1]);
  const tids = new Set();
  for (let n = 0; n < 3; n++) {
    tids.add((await styx.request('shop', 'item', 'fig', 'take', [3], { idempotencyKey: 'fig-ts' })).tid);
  }
  assert.equal(tids.size, 1);
  assert.deepEqual(await styx.state('shop', 'item', 'fig'), [7, 1]);
  const other = styx.request('shop', 'item', 'fig', 'take', [4], { idempotencyKey: 'fig-ts' });
  await assert.rejects(other, code('IDEMPOTENCY_MISMATCH'));
});

test('what is sent ends later', async () => {
  await styx.call('shop', 'item', 'kiwi', 'insert', [1, 1]);
  const done = await styx.result(await styx.send('shop', 'item', 'kiwi', 'take', [1]), 10_000);
  assert.deepEqual([done.status, done.result], ['committed', null]);
  const refused = await styx.result(await styx.send('shop', 'item', 'kiwi', 'take', [1]), 10_000);
  assert.deepEqual([refused.status, refused.error?.code], ['aborted', 'ABORTED']);
  await assert.rejects(styx.result('0'.repeat(32)), code('UNKNOWN_REQUEST'));
});

test('thousands of calls share a connection, and pages are read one after the other', async () => {
  const keys = Array.from({ length: 6000 }, (_, n) => `scan/${String(n).padStart(5, '0')}`);
  await Promise.all(keys.map((key, n) => styx.call('shop', 'user', key, 'insert', [n])));
  const found = [];
  for await (const { key, value } of styx.scan('shop', 'user', 'scan/')) found.push([key, value]);
  assert.deepEqual(found, keys.map((key, n) => [key, n]));
});

test('keys are texts of any kind', async () => {
  for (const key of ['a/b c', 'ü', '100%', '?x=1#y', '\u202e', '"quoted"\n']) {
    await styx.call('shop', 'user', key, 'insert', [7]);
    assert.equal(await styx.state('shop', 'user', key), 7);
  }
});

test('numbers keep their digits', async () => {
  const large = 9_007_199_254_740_993n;
  await styx.call('shop', 'user', 'large', 'insert', [large]);
  assert.equal(await styx.state('shop', 'user', 'large'), large);
  assert.equal(stringify([large, 1.5, -0]), '[9007199254740993,1.5,-0]');
  assert.deepEqual(parse('[18446744073709551615, 9007199254740991, 0.12345678901234567]'), [18446744073709551615n, 9007199254740991, 0.12345678901234567]);
  for (const wrong of [NaN, Infinity, [1, { x: -Infinity }], undefined]) assert.throws(() => stringify(wrong), TypeError);
  await assert.rejects(styx.call('shop', 'user', 'nan', 'insert', [NaN]), TypeError);
});

test('a server that is killed and comes back is asked again', async () => {
  await styx.call('shop', 'user', 'steady', 'insert', [1_000_000]);
  let [calls, going] = [0, true];
  const callers = Array.from({ length: 8 }, async () => {
    while (going) {
      await styx.call('shop', 'user', 'steady', 'pay', [1]);
      calls++;
    }
  });
  for (let round = 0; round < 3; round++) {
    await pause(300);
    await server.stop('SIGKILL');
    await server.begin();
  }
  await pause(300);
  going = false;
  await Promise.all(callers);
  assert.ok(calls > 50, `${calls} calls`);
  assert.equal(await styx.state('shop', 'user', 'steady'), 1_000_000 - calls);
});

test('without a key nobody guesses', async () => {
  await styx.call('shop', 'user', 'unkeyed', 'insert', [5]);
  server.signal('SIGSTOP');
  const call = styx.call('shop', 'user', 'unkeyed', 'pay', [1], { idempotencyKey: false });
  const ended = assert.rejects(call, error => error instanceof StyxError && error.code === 'CONNECTION' && error.outcomeUnknown);
  await pause(200);
  await server.stop('SIGKILL');
  await ended;
  await server.begin();
});

test('what `styx generate client` writes compiles, and calls', async () => {
  const { Shop } = await server.generated();
  const shop = new Shop(styx);
  await shop.item('pear').insert(3, 10);
  assert.equal(await shop.item('pear').take(2), null);
  await assert.rejects(shop.item('pear').take(2), code('ABORTED'));
  const [users, credit] = await shop.user('all').audit(1);
  assert.ok(users <= 1 && typeof credit === 'number');
});

test('nobody there', async () => {
  const lonely = new Client({ ingressUrl: 'http://127.0.0.1:9', retry: { patience: 0 } });
  await assert.rejects(lonely.call('shop', 'user', 'u', 'pay', [1]), code('UNREACHABLE'));
  await assert.rejects(lonely.state('shop', 'user', 'u'), code('UNREACHABLE'));
  await lonely.close();
});

test('a client that is closed says so', async () => {
  const client = new Client(server.urls);
  await client.call('shop', 'user', 'closed', 'insert', [1]);
  await client.close();
  await assert.rejects(client.call('shop', 'user', 'closed', 'pay', [1]), code('CLOSED'));
});
