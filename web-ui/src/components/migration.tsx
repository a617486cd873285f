// A migration: how far it is, and those that have ended.
import { Fragment } from 'react';
import { path, send, type Schemas } from '../api/client';
import { useChange } from '../api/hooks';
import { bytes, clock, count, plural, seconds } from '../lib/format';
import { useParameter } from './address';
import { Age, Button, Card, ErrorNotice, Table, Tag, number } from './basics';
import { Course } from './course';

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
      <Course migration={migration} />
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

/** Those that have ended, the newest first. Of which it is shown how they went is in the address. */
export function MigrationHistory({ migrations }: { migrations: Migration[] }) {
  const [text, setText] = useParameter('went');
  const open = text.split(',').filter(id => id);
  const toggle = (id: string) =>
    setText((open.includes(id) ? open.filter(one => one !== id) : [...open, id]).join(','));
  const columns = [
    'Migration',
    'State',
    'From → to',
    'How',
    number('Partitions'),
    number('Bytes'),
    number('Took'),
    'Began',
    '',
  ];
  return (
    <Card title="History" note={migrations.length ? 'since the coordinator began' : undefined}>
      {migrations.length === 0 ? (
        <p className="quiet">None has ended since the coordinator began.</p>
      ) : (
        <Table label="Ended migrations" columns={columns}>
          {migrations.map(migration => (
            <Fragment key={migration.id}>
              <tr>
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
                <Age of={migration.started} />
                <td>
                  <Button
                    kind="quiet"
                    aria-expanded={open.includes(migration.id)}
                    aria-label={`How ${migration.id} went`}
                    onClick={() => toggle(migration.id)}
                  >
                    How it went
                  </Button>
                </td>
              </tr>
              {open.includes(migration.id) && (
                <tr className="more">
                  <td colSpan={columns.length}>
                    <Course migration={migration} />
                  </td>
                </tr>
              )}
            </Fragment>
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
