// Partitions change their workers while everything goes on: planned, watched, held up, given up.
import { useState, type FormEvent } from 'react';
import { send, type Schemas } from '../api/client';
import { isUnderWay, useChange, useCluster, useMay, useMigrations, usePartitions, useWorkers } from '../api/hooks';
import { Button, Card, Confirm, ErrorNotice, Notice, Page, Pending, Table, number } from '../components/basics';
import { MigrationHistory, MigrationProgress } from '../components/migration';
import { PartitionMap } from '../components/partition-map';
import { bytes, count, plural, seconds } from '../lib/format';

type Wanted = Partial<Schemas['MigrationRequest']>;
type Goal = 'balance' | 'empty' | 'moves';
type Mode = Schemas['Mode'];

const modes: Record<Mode, string> = {
  online: 'When the new owner has a copy (nobody waits)',
  immediate: 'At once, and what is in them afterwards (relieves a busy worker sooner)',
  'stop-and-restart': 'With everything at rest, from a snapshot (to compare with)',
};

const plan = async (wanted: Wanted) => ({
  wanted,
  plan: await send<Schemas['Plan']>('POST', '/v1/migrations', { ...wanted, dry_run: true }),
});
const start = (wanted: Wanted) => send<Schemas['Migrated']>('POST', '/v1/migrations', { ...wanted, wait: false });

export function Migrations() {
  const cluster = useCluster();
  const workers = useWorkers();
  const partitions = usePartitions();
  const migrations = useMigrations();
  const { why } = useMay('operate');
  const planned = useChange(plan);
  const started = useChange(start, 'cluster');
  const single = cluster.data?.mode === 'single-process';
  const current = migrations.data?.migrations.find(isUnderWay);
  return (
    <Page title="Migrations" lead="Partitions change their workers while calls go on">
      <Pending of={cluster} />
      {single && (
        <Notice kind="info" title="There is one worker">
          In a cluster of several, partitions are moved here.
        </Notice>
      )}
      {current && <MigrationProgress migration={current} denied={why} />}
      {!single && !current && workers.data && (
        <Card title="Plan one">
          <GoalForm
            workers={workers.data.workers.map(({ worker }) => worker)}
            denied={why}
            busy={planned.isPending}
            onAsk={wanted => {
              started.reset();
              planned.mutate(wanted);
            }}
          />
          <div aria-live="polite">
            <ErrorNotice error={planned.error ?? started.error} />
          </div>
        </Card>
      )}
      <Card title="Partitions" note={workers.data && plural(workers.data.workers.length, 'worker')}>
        <Pending of={partitions} />
        {partitions.data && <PartitionMap partitions={partitions.data.partitions} />}
      </Card>
      {!single && migrations.data && (
        <MigrationHistory migrations={migrations.data.migrations.filter(one => !isUnderWay(one))} />
      )}
      {planned.data && (
        <Confirm
          title={`Move ${plural(planned.data.plan.partitions, 'partition')}?`}
          action="Start"
          kind="primary"
          busy={started.isPending}
          onClose={() => planned.reset()}
          onConfirm={() => {
            const { wanted, plan } = planned.data;
            started.mutate({ ...wanted, placement: plan.placement }, { onSettled: () => planned.reset() });
          }}
        >
          <PlanTable plan={planned.data.plan} />
          <p className="quiet">Calls go on meanwhile. It can be cancelled until the owners change.</p>
        </Confirm>
      )}
    </Page>
  );
}

/** What is wanted. */
function GoalForm({ workers, denied, busy, onAsk }: GoalProps) {
  const [goal, setGoal] = useState<Goal>('balance');
  const [worker, setWorker] = useState('1');
  const [moved, setMoved] = useState('');
  const [mode, setMode] = useState<Mode>('online');
  const [wrong, setWrong] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const list = numbers(moved);
    setWrong('');
    if (goal === 'balance') onAsk({ balance: true, mode });
    else if (goal === 'empty') onAsk({ empty: Number(worker), mode });
    else if (list) onAsk({ moves: list.map(partition => ({ partition, worker: Number(worker) })), mode });
    else setWrong('Partitions are numbers and ranges, such as 3, 17-20');
  };
  const choice = (value: Goal, text: string) => (
    <label>
      <input type="radio" name="goal" checked={goal === value} onChange={() => setGoal(value)} /> {text}
    </label>
  );
  return (
    <form onSubmit={submit} className="goal">
      <fieldset disabled={busy}>
        <legend className="unseen">What is wanted</legend>
        {choice('balance', 'Even shares of what is held and done')}
        {choice('empty', 'Empty a worker, before it leaves')}
        {choice('moves', 'Move partitions that I name')}
        {goal === 'moves' && (
          <label className="field">
            <span>Partitions</span>
            <input value={moved} placeholder="3, 17-20" onChange={event => setMoved(event.target.value)} required />
          </label>
        )}
        {goal !== 'balance' && (
          <label className="field">
            <span>{goal === 'empty' ? 'Worker to empty' : 'Worker that is to have them'}</span>
            <select value={worker} onChange={event => setWorker(event.target.value)}>
              {workers.map(worker => (
                <option key={worker}>{worker}</option>
              ))}
            </select>
          </label>
        )}
        <label className="field">
          <span>When they change their worker</span>
          <select value={mode} onChange={event => setMode(event.target.value as Mode)}>
            {(Object.keys(modes) as Mode[]).map(mode => (
              <option key={mode} value={mode}>
                {modes[mode]}
              </option>
            ))}
          </select>
        </label>
      </fieldset>
      {wrong && <Notice kind="bad" title={wrong} />}
      <div className="actions">
        <Button type="submit" kind="primary" denied={denied} busy={busy}>
          Plan
        </Button>
      </div>
    </form>
  );
}

interface GoalProps {
  workers: number[];
  denied: string;
  busy: boolean;
  onAsk: (wanted: Wanted) => void;
}

/** What a plan would do to each worker. */
function PlanTable({ plan }: { plan: Schemas['Plan'] }) {
  return (
    <>
      <p>
        {plural(plan.entities, 'entity', 'entities')} of {bytes(plan.bytes)} go along
        {plan.estimated_seconds != null &&
          `, in about ${seconds(plan.estimated_seconds)} (by the ${plan.estimated_by})`}
        .
      </p>
      <Table label="Shares of workers" columns={['Worker', number('Partitions'), number('Bytes'), number('Calls')]}>
        {plan.workers.map(({ worker, before, after }) => (
          <tr key={worker}>
            <td>{worker}</td>
            <td className="number">
              {count(before.partitions)} → {count(after.partitions)}
            </td>
            <td className="number">
              {bytes(before.bytes)} → {bytes(after.bytes)}
            </td>
            <td className="number">
              {count(before.calls)} → {count(after.calls)}
            </td>
          </tr>
        ))}
      </Table>
    </>
  );
}

/** Numbers and ranges of them; null if it is neither. */
function numbers(text: string): number[] | null {
  const parts = text.split(/[\s,]+/).filter(part => part);
  const all = parts.flatMap(part => {
    const range = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part);
    if (!range) return [NaN];
    const from = Number(range[1]);
    const to = Number(range[2] ?? range[1]);
    return to < from ? [NaN] : Array.from({ length: to - from + 1 }, (_, at) => from + at);
  });
  return all.length && all.every(n => !Number.isNaN(n)) ? all : null;
}
