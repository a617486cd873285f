// What the server tells as it happens: server-sent events, read by hand because a token has to be shown.
import { errorOf, headers, refused, type ApiError, type Schemas } from './client';
import { token } from './token';

export interface Sample {
  /** End of the second, in milliseconds. */
  at: number;
  committed: number;
  fellBack: number;
  aborted: number;
  queries: number;
  epochs: number;
}

export interface Live {
  state: 'connecting' | 'open' | 'lost' | 'refused' | 'denied';
  /** When the next attempt is made, if it is lost. */
  retryAt: number;
  status: Schemas['Status'] | null;
  /** Seconds, oldest first; the last is under way. */
  samples: Sample[];
  last: Schemas['EpochEvent'] | null;
  /** The latest epochs that were told of, oldest first. */
  epochs: Schemas['EpochReport'][];
  /** What has happened, newest first. */
  news: News[];
  /** Why this token may not watch. */
  denied: ApiError | null;
}

export type News =
  | { event: 'member'; data: Schemas['MemberNews'] }
  | { event: 'deployment'; data: Schemas['DeploymentNews'] }
  | { event: 'snapshot'; data: Schemas['SnapshotNews'] }
  | { event: 'quarantine'; data: Schemas['QuarantineNews'] };
const NEWS = ['member', 'deployment', 'snapshot', 'quarantine'];
const NEWS_KEPT = 50;

export const SECONDS = 120;
const EPOCHS = 60;

let live: Live = {
  state: 'connecting',
  retryAt: 0,
  status: null,
  samples: [],
  last: null,
  epochs: [],
  news: [],
  denied: null,
};
const listeners = new Set<() => void>();

export const snapshot = (): Live => live;

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function update(part: Partial<Live>): void {
  live = { ...live, ...part };
  listeners.forEach(listener => listener());
}

let lastId: string | null = null;
let hasTotals = false;
let lastEventAt = 0;
let abort: AbortController | null = null;
let timer = 0;
let attempts = 0;

/** Connects, or connects anew at once. */
export function connect(): void {
  abort?.abort();
  clearTimeout(timer);
  abort = new AbortController();
  void read(abort.signal);
}

export function disconnect(): void {
  abort?.abort();
  clearTimeout(timer);
}

async function read(signal: AbortSignal): Promise<void> {
  const shown = token();
  try {
    const response = await fetch('/v1/events', {
      headers: headers(lastId ? { 'last-event-id': lastId } : {}),
      cache: 'no-store',
      signal,
    });
    if (response.status === 401) {
      update({ state: 'refused' });
      return refused(shown);
    }
    if (response.status === 403) {
      // Another token may; this one will not, however often it is tried.
      return update({ state: 'denied', denied: await errorOf(response) });
    }
    if (!response.ok || !response.body) throw await errorOf(response);
    attempts = 0;
    update({ state: 'open', denied: null });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += value;
      let end: number;
      while ((end = text.indexOf('\n\n')) >= 0) {
        event(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  } catch {
    // Whatever it was, it is tried again.
  }
  if (!signal.aborted) retry();
}

function retry(): void {
  const wait = Math.min(15_000, 500 * 2 ** attempts);
  attempts += 1;
  update({ state: 'lost', retryAt: Date.now() + wait });
  timer = window.setTimeout(connect, wait);
}

function event(text: string): void {
  const fields = new Map(
    text.split('\n').map(row => [row.slice(0, row.indexOf(':')), row.slice(row.indexOf(':') + 2)]),
  );
  const data = fields.get('data');
  if (!data) return;
  const name = fields.get('event') ?? '';
  if (NEWS.includes(name)) {
    lastId = fields.get('id') ?? lastId;
    const news = { event: name, data: JSON.parse(data) as unknown } as News;
    return update({ news: [news, ...live.news].slice(0, NEWS_KEPT) });
  }
  if (name === 'status') return update({ status: JSON.parse(data) as Schemas['Status'] });
  if (name !== 'epochs') return;
  const epochs = JSON.parse(data) as Schemas['EpochEvent'];
  // The first one holds what was before this page.
  const isFirst = !hasTotals;
  hasTotals = true;
  lastId = fields.get('id') ?? lastId;
  const report = epochs.last;
  update({
    last: epochs,
    epochs: report ? [...live.epochs.slice(-EPOCHS + 1), report] : live.epochs,
    samples: isFirst ? fill(live.samples, Date.now()) : add(live.samples, epochs, Date.now()),
  });
  lastEventAt = Date.now();
}

const empty = (at: number): Sample => ({ at, committed: 0, fellBack: 0, aborted: 0, queries: 0, epochs: 0 });

/** Seconds up to now, those without events included. */
export function fill(samples: Sample[], now: number): Sample[] {
  const end = Math.floor(now / 1000) * 1000;
  const filled = samples.slice();
  for (let at = filled.at(-1)?.at ?? end - SECONDS * 1000; at < end;) filled.push(empty((at += 1000)));
  return filled.slice(-SECONDS - 1);
}

/** What came since the last event: shared out over the seconds that had none, if the connection was lost meanwhile. */
function add(samples: Sample[], event: Schemas['EpochEvent'], now: number): Sample[] {
  const filled = fill(samples, now);
  const gap = Math.min(filled.length, Math.max(1, Math.round((now - lastEventAt) / 1000)));
  const share = live.state === 'open' && gap > 2 && attempts > 0 ? gap : 1;
  for (let at = filled.length - share; at < filled.length; at += 1) {
    const sample = filled[at];
    if (!sample) continue;
    filled[at] = {
      at: sample.at,
      committed: sample.committed + event.committed / share,
      fellBack: sample.fellBack + event.fell_back / share,
      aborted: sample.aborted + event.aborted / share,
      queries: sample.queries + event.queries / share,
      epochs: sample.epochs + event.epochs / share,
    };
  }
  return filled;
}

// Time goes on where nothing happens.
setInterval(() => {
  if (live.samples.length && live.state === 'open') update({ samples: fill(live.samples, Date.now()) });
}, 1000);
