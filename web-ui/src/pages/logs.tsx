// Lines that functions have logged, as they come.
import { useEffect, useRef, useState } from 'react';
import { Link } from 'wouter';
import { errorOf, headers, path, refused, type ApiError, type Schemas } from '../api/client';
import { useApps } from '../api/hooks';
import { token } from '../api/token';
import { Button, Card, ErrorNotice, Page, Tag } from '../components/basics';
import { clock, line as shown, plural } from '../lib/format';

type Entry = Schemas['LogEntry'];

const LINES_MAX = 1000;
const LEVELS = ['debug', 'info', 'warn', 'error'];
const KIND: Record<string, 'plain' | 'accent' | 'warn' | 'bad'> = { info: 'accent', warn: 'warn', error: 'bad' };

interface Stream {
  lines: Entry[];
  missed: number;
  state: 'connecting' | 'open' | 'lost';
  error: ApiError | null;
}

const NOTHING: Stream = { lines: [], missed: 0, state: 'connecting', error: null };

/** Lines that pass the filter, as long as they are followed. */
function useLines(query: string, follow: boolean): Stream {
  const [stream, setStream] = useState(NOTHING);
  useEffect(() => setStream(NOTHING), [query]);
  useEffect(() => {
    if (!follow) return;
    const abort = new AbortController();
    let timer = 0;
    const read = async () => {
      const used = token();
      try {
        const response = await fetch(`/v1/logs?follow=true&${query}`, { headers: headers(), signal: abort.signal });
        if (response.status === 401) return refused(used);
        if (!response.ok || !response.body) {
          const error = await errorOf(response);
          return setStream(now => ({ ...now, state: 'lost', error }));
        }
        setStream({ ...NOTHING, state: 'open' });
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let text = '';
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          text += value;
          const events = text.split('\n\n');
          text = events.pop() ?? '';
          const news = events.map(field);
          const lines = news.filter(([event]) => event === 'line').map(([, data]) => JSON.parse(data) as Entry);
          const missed = news.filter(([event]) => event === 'missed').reduce((sum, [, data]) => sum + Number(data), 0);
          if (lines.length || missed) {
            setStream(now => ({
              ...now,
              lines: [...now.lines, ...lines].slice(-LINES_MAX),
              missed: now.missed + missed,
            }));
          }
        }
      } catch {
        // Whatever it was, it is tried again.
      }
      if (abort.signal.aborted) return;
      setStream(now => ({ ...now, state: 'lost' }));
      timer = window.setTimeout(() => void read(), 2000);
    };
    void read();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [query, follow]);
  return stream;
}

/** The name and the data of an event. */
function field(event: string): [string, string] {
  const rows = event.split('\n');
  const of = (name: string) =>
    rows
      .find(row => row.startsWith(name))
      ?.slice(name.length)
      .trimStart() ?? '';
  return [of('event:'), of('data:')];
}

export function Logs() {
  const asked = new URLSearchParams(window.location.search);
  const [app, setApp] = useState(asked.get('app') ?? '');
  const [level, setLevel] = useState(asked.get('level') ?? 'debug');
  const [fn, setFn] = useState(asked.get('function') ?? '');
  const [request, setRequest] = useState(asked.get('request') ?? '');
  const [follow, setFollow] = useState(true);
  const apps = useApps();
  const query = new URLSearchParams({
    level,
    tail: '200',
    ...(app && { app }),
    ...(fn && { function: fn }),
    ...(request && { request }),
  }).toString();
  const { lines, missed, state, error } = useLines(query, follow);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // An address that can be passed on.
    window.history.replaceState(window.history.state, '', `${window.location.pathname}?${query}`);
  }, [query]);
  useEffect(() => {
    if (follow && end.current) end.current.scrollTop = end.current.scrollHeight;
  }, [lines, follow]);
  return (
    <Page
      title="Logs"
      lead="What functions have logged: the last lines of each worker, and those that come"
      actions={<Button onClick={() => setFollow(!follow)}>{follow ? 'Pause' : 'Go on'}</Button>}
    >
      <form className="filters" onSubmit={event => event.preventDefault()}>
        <label className="field">
          <span>App</span>
          <select value={app} onChange={event => setApp(event.target.value)}>
            <option value="">All</option>
            {apps.data?.apps.map(({ name }) => (
              <option key={name} value={name}>
                {shown(name)}
              </option>
            ))}
          </select>
        </label>
        <label className="field">
          <span>At least</span>
          <select value={level} onChange={event => setLevel(event.target.value)}>
            {LEVELS.map(name => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label className="field">
          <span>Function</span>
          <input value={fn} placeholder="operator.function" onChange={event => setFn(event.target.value)} />
        </label>
        <label className="field">
          <span>Request</span>
          <input value={request} spellCheck={false} onChange={event => setRequest(event.target.value)} />
        </label>
      </form>
      <ErrorNotice error={error} />
      <Card
        title={plural(lines.length, 'line')}
        note={
          <>
            {{ connecting: 'connecting', open: follow ? 'live' : 'paused', lost: 'no connection' }[state]}
            {missed > 0 && ` · ${plural(missed, 'line')} missed`}
          </>
        }
      >
        {lines.length === 0 ? (
          <p className="empty">No function has logged anything that is asked for here.</p>
        ) : (
          <div className="log scroll" ref={end} tabIndex={0} role="region" aria-label="Log lines">
            <ol className="lines">
              {lines.map(one => (
                <Line key={`${one.worker}-${one.sequence}`} line={one} />
              ))}
            </ol>
          </div>
        )}
      </Card>
    </Page>
  );
}

/** A line of a guest; of a request whose page it is on, without what is known there. */
export function Line({ line, brief = false }: { line: Entry; brief?: boolean }) {
  return (
    <li>
      <time>{clock(line.time_us / 1000)}</time> <Tag kind={KIND[line.level] ?? 'plain'}>{line.level}</Tag>{' '}
      <span className="quiet">
        {!brief && `${shown(line.app)}/`}
        {shown(`${line.operator}.${line.function}`)}
      </span>{' '}
      <bdi className="message">{shown(line.message)}</bdi>{' '}
      {!brief && (
        <Link href={path('requests', line.request_id)} aria-label={`Request ${line.request_id}`}>
          {line.request_id.slice(0, 8)}
        </Link>
      )}
    </li>
  );
}
