// A migration: how far it is, and those that have ended.
import { useEffect, useRef, useState } from 'react';
import { path, send, type Schemas } from '../api/client';
import { useChange, useEpochs } from '../api/hooks';
import { EVERY_SECONDS, useLatencyHistory } from '../api/latency';
import { ago, bytes, clock, count, plural, seconds } from '../lib/format';
import { Button, Card, ErrorNotice, Table, Tag, number } from './basics';
import { Chart } from './chart';

type Migration = Schemas['MigrationView'];

const change = ({ id, verb }: { id: string; verb: 'pause' | 'resume' | 'cancel' }) =>
  verb === 'cancel'
    ? send<unknown>('DELETE', path('v1', 'migrations', id))
    : send<unknown>('POST', path('v1', 'migrations', id, verb));

/** The one under way. */
export function MigrationProgress({ migration, denied }: { migration: Migration; denied: string }) {
  const changed = useChange(change, 'cluster');
  const { id, state } = migration;
  const button = (verb: 'pause' | 'resume' | 'cancel', text: string) => (
    <Button denied={denied} busy={changed.isPending} onClick={() => changed.mutate({ id, verb })}>
      {text}
    </Button>
  );
  return (
    <Card title={`Under way: ${transfers(migration)}`} note={<StateTag state={state} />}>
      <Measure name="Partitions" of={migration.partitions} text={count} />
      <Measure name="Entities" of={migration.entities} text={count} />
      <Measure name="Bytes" of={migration.bytes} text={bytes} />
      <p className="quiet" aria-live="polite">
        {MODES[migration.mode]}. Began at {clock(migration.started / 1000)}, has run for{' '}
        {seconds(migration.took_ms / 1000)}
        {migration.bytes_per_second != null && `, ${bytes(migration.bytes_per_second)} a second on average`}
        {migration.rate_limit != null && `, at most ${bytes(migration.rate_limit)} a second for each worker`}
        {migration.estimated_seconds_left != null && `, about ${seconds(migration.estimated_seconds_left)} left`}.
      </p>
      <Timeline migration={migration} />
      <div className="actions">
        {(state === 'copying' || state === 'arriving') && button('pause', 'Pause')}
        {state === 'paused' && button('resume', 'Resume')}
        {state !== 'arriving' && button('cancel', 'Cancel')}
      </div>
      <ErrorNotice error={changed.error} />
      <Effects />
    </Card>
  );
}

const MODES: Record<Schemas['Mode'], string> = {
  online: 'Online',
  immediate: 'Immediate',
  'stop-and-restart': 'Stop and restart',
};

const PHASES: Record<string, readonly [string, string]> = {
  copying: ['copying', 'w1'],
  paused: ['paused', 'w8'],
  flipping: ['changing owners', 'w3'],
  arriving: ['arriving', 'w6'],
};

/** What it has been through, each part as long as it took. */
function Timeline({ migration }: { migration: Migration }) {
  const { phases, took_ms: took, mode } = migration;
  const parts = phases.map(({ state, after_ms: from }, at) => {
    const [name, color] = PHASES[state] ?? [state, 'w4'];
    const known = mode === 'stop-and-restart' && state === 'flipping' ? 'everything at rest' : name;
    return { name: known, color, from, ms: Math.max(0, (phases[at + 1]?.after_ms ?? took) - from) };
  });
  const whole = Math.max(
    1,
    parts.reduce((sum, { ms }) => sum + ms, 0),
  );
  return (
    <div className="timeline">
      <svg viewBox="0 0 1000 6" preserveAspectRatio="none" aria-hidden="true">
        {parts.map(({ color, from, ms }, at) => (
          <rect
            key={at}
            className={color}
            x={(from / whole) * 1000}
            width={Math.max(4, (ms / whole) * 1000)}
            height={6}
          />
        ))}
      </svg>
      <span className="phase-list">
        {parts.map(({ name, color, ms }, at) => (
          <span key={at}>
            <span className={`swatch ${color}`} aria-hidden="true" />
            {name} {seconds(ms / 1000)}
          </span>
        ))}
      </span>
    </div>
  );
}

const SECONDS = 120;

/** What it costs those who call, as it happens: the longest epoch of each second, and latencies. */
function Effects() {
  const longest = useLongestEpochs();
  const latencies = useLatencyHistory(SECONDS / EVERY_SECONDS);
  const ago = (n: number) => (n === 0 ? 'now' : `${n} s ago`);
  const called = latencies.some(({ count }) => count > 0);
  return (
    <div className="columns">
      <div>
        <h3>Longest epoch</h3>
        <Chart
          title="Longest epoch of each second"
          labels={longest.map((_, at) => ago(longest.length - at - 1))}
          format={seconds}
          height={120}
          series={[{ name: 'of the second', color: 'c-committed', values: longest }]}
        />
      </div>
      <div>
        <h3>Latency</h3>
        {called ? (
          <Chart
            title="Latency"
            labels={latencies.map((_, at) => ago((latencies.length - at - 1) * EVERY_SECONDS))}
            format={seconds}
            height={120}
            series={[
              { name: 'p50', color: 'c-committed', values: latencies.map(({ p50 }) => p50) },
              { name: 'p99', color: 'c-fallback', values: latencies.map(({ p99 }) => p99) },
            ]}
          />
        ) : (
          <p className="quiet">
            This process has answered no calls meanwhile. Where gateways take them, each has its figures at /metrics of
            its admin port.
          </p>
        )}
      </div>
    </div>
  );
}

/** In seconds, the oldest second first; none where no epoch has ended. */
function useLongestEpochs(): (number | null)[] {
  const epochs = useEpochs(true);
  const found = useRef(new Map<number, number>());
  const [longest, setLongest] = useState<(number | null)[]>([]);
  useEffect(() => {
    if (!epochs.data) return;
    for (const { time, duration_us: took } of epochs.data.epochs) {
      const second = Math.floor((time + took) / 1e6);
      found.current.set(second, Math.max(found.current.get(second) ?? 0, took / 1e6));
    }
    const last = Math.max(...found.current.keys());
    for (const second of found.current.keys()) if (second <= last - SECONDS) found.current.delete(second);
    const first = Math.min(...found.current.keys());
    if (!Number.isFinite(last)) return;
    setLongest(Array.from({ length: last - first + 1 }, (_, at) => found.current.get(first + at) ?? null));
  }, [epochs.data]);
  return longest;
}

function Measure({ name, of, text }: { name: string; of: Schemas['Progress']; text: (n: number) => string }) {
  return (
    <label className="measure">
      <span>{name}</span>
      <progress max={Math.max(1, of.of)} value={of.of === 0 ? 1 : Math.min(of.done, of.of)} />
      <span className="number">
        {text(of.done)} of {text(of.of)}
      </span>
    </label>
  );
}

/** Those that have ended, the newest first. */
export function MigrationHistory({ migrations }: { migrations: Migration[] }) {
  return (
    <Card title="History" note={migrations.length ? 'since the coordinator began' : undefined}>
      {migrations.length === 0 ? (
        <p className="quiet">None has ended since the coordinator began.</p>
      ) : (
        <Table
          label="Ended migrations"
          columns={[
            'Migration',
            'State',
            'From → to',
            'How',
            number('Partitions'),
            number('Bytes'),
            number('Took'),
            'Began',
          ]}
        >
          {migrations.map(migration => (
            <tr key={migration.id}>
              <td>
                <code>{migration.id}</code>
              </td>
              <td>
                <StateTag state={migration.state} /> {migration.reason}
              </td>
              <td>
                {transfers(migration)}
                <Timeline migration={migration} />
              </td>
              <td>{MODES[migration.mode]}</td>
              <td className="number">{count(migration.partitions.done)}</td>
              <td className="number">{bytes(migration.bytes.done)}</td>
              <td className="number">{seconds(migration.took_ms / 1000)}</td>
              <td className="brief" title={clock(migration.started / 1000)}>
                {ago(new Date(migration.started / 1000).toISOString())}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

const KINDS: Record<string, 'good' | 'warn' | 'bad' | 'accent'> = {
  done: 'good',
  paused: 'warn',
  cancelled: 'warn',
  failed: 'bad',
};

const StateTag = ({ state }: { state: string }) => <Tag kind={KINDS[state] ?? 'accent'}>{state}</Tag>;

/** Who gives how much to whom; of many, how many there are. */
function transfers({ transfers, repartitioned }: Migration): string {
  if (repartitioned) return `${count(repartitioned)} partitions`;
  const all = transfers.map(({ from, to, partitions }) => `worker ${from} → ${to}: ${count(partitions)}`);
  return all.length > 3 ? plural(all.length, 'transfer') : all.join(', ');
}
