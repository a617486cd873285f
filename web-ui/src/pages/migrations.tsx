// Partitions change their workers while everything goes on: planned, watched, held up, given up.
import { useState, type FormEvent } from 'react';
import { send, type Schemas } from '../api/client';
import { isUnderWay, useChange, useCluster, useMay, useMigrations, usePartitions, useWorkers } from '../api/hooks';
import { useChoice, useField } from '../components/address';
import { Autoscaler } from '../components/autoscaler';
import { Button, Card, Confirm, ErrorNotice, Notice, Page, Pending, Table, number } from '../components/basics';
import { MigrationHistory, MigrationProgress } from '../components/migration';
import { PartitionMap } from '../components/partition-map';
import { bytes, count, plural, seconds } from '../lib/format';

type Wanted = Partial<Schemas['MigrationRequest']>;
const GOALS = ['balance', 'workers', 'only', 'empty', 'moves', 'partitions'] as const;
type Goal = (typeof GOALS)[number];
type Mode = Schemas['Mode'];
type By = Schemas['By'];

const BYS: readonly By[] = ['load', 'partitions'];
const MODES: readonly Mode[] = ['online', 'immediate', 'stop-and-restart'];
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
            partitions={partitions.data?.partitions.length ?? 1024}
            denied={why}
            busy={planned.isPending}
            onEdit={() => planned.reset()}
            onAsk={wanted => {
              started.reset();
              planned.mutate(wanted);
            }}
          />
          <div aria-live="polite">
            <ErrorNotice error={planned.error} />
            {planned.data && !doesSomething(planned.data.plan) && (
              <Notice kind="info" title="Nothing has to move">
                Partitions are as you want them.
              </Notice>
            )}
          </div>
        </Card>
      )}
      <Card title="Partitions" note={workers.data && plural(workers.data.workers.length, 'worker')}>
        <Pending of={partitions} />
        {partitions.data && <PartitionMap partitions={partitions.data.partitions} at={partitions.dataUpdatedAt} />}
      </Card>
      {cluster.data && !single && <Autoscaler />}
      {!single && migrations.data && (
        <MigrationHistory migrations={migrations.data.migrations.filter(one => !isUnderWay(one))} />
      )}
      {planned.data && doesSomething(planned.data.plan) && (
        <Confirm
          title={
            planned.data.plan.repartitioned
              ? `Have ${plural(planned.data.plan.repartitioned, 'partition')}?`
              : `Move ${plural(planned.data.plan.partitions, 'partition')}?`
          }
          action="Start"
          kind="primary"
          busy={started.isPending}
          error={started.error}
          onClose={() => {
            planned.reset();
            started.reset();
          }}
          onConfirm={() => {
            const { wanted, plan } = planned.data;
            started.mutate({ ...wanted, placement: plan.placement }, { onSuccess: () => planned.reset() });
          }}
        >
          <PlanTable plan={planned.data.plan} />
          <p className="quiet">Calls go on meanwhile. It can be cancelled until the owners change.</p>
        </Confirm>
      )}
    </Page>
  );
}

/** What is wanted; it is in the address, so that it can be passed on to whoever may start it. */
function GoalForm({ workers, partitions, denied, busy, onEdit, onAsk }: GoalProps) {
  const [goal, setGoal] = useChoice('goal', GOALS, 'balance');
  const [named, setWorker] = useField('worker', String(workers[0] ?? 1));
  // Who was there when the address was made may be gone.
  const worker = workers.includes(Number(named)) ? named : String(workers[0] ?? 1);
  const [many, setMany] = useField('workers', String(workers.length));
  const [list, setList] = useField('only', workers.join(','));
  const chosen = workers.filter(worker => list.split(',').includes(String(worker)));
  const [parts, setParts] = useField('number', '');
  const [moved, setMoved] = useField('moves', '');
  const [by, setBy] = useChoice('by', BYS, 'load');
  const [mode, setMode] = useChoice('mode', MODES, 'online');
  const [limit, setLimit] = useField('limit', '');
  const [wrong, setWrong] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setWrong('');
    const moves = numbers(moved);
    // Bytes a second, of MiB.
    const rate = limit.trim() === '' ? undefined : Math.round(Number(limit) * 2 ** 20);
    if (rate !== undefined && !(rate > 0)) return setWrong('The limit is a number of MiB a second, such as 8 or 0.5');
    const how = { mode, ...(rate !== undefined && { rate }) };
    switch (goal) {
      case 'balance':
        return onAsk({ balance: true, by, ...how });
      case 'workers':
        return onAsk({ workers: Number(many), by, ...how });
      case 'only':
        if (chosen.length === 0) return setWrong('Choose the workers that are to have all');
        return onAsk({ only: chosen, by, ...how });
      case 'empty':
        return onAsk({ empty: Number(worker), by, ...how });
      case 'moves':
        if (!moves) return setWrong('Partitions are numbers and ranges, such as 3, 17-20');
        return onAsk({ moves: moves.map(partition => ({ partition, worker: Number(worker) })), ...how });
      case 'partitions':
        return onAsk({ partitions: Number(parts), mode });
    }
  };
  const choice = (value: Goal, text: string) => (
    <label>
      <input type="radio" name="goal" checked={goal === value} onChange={() => setGoal(value)} /> {text}
    </label>
  );
  return (
    <form onSubmit={submit} onChange={onEdit} className="goal">
      <fieldset disabled={busy}>
        <legend className="unseen">What is wanted</legend>
        {choice('balance', 'Even shares of what is held and done')}
        {choice('workers', 'Scale to so many workers')}
        {choice('only', 'All to workers that I choose')}
        {choice('empty', 'Empty a worker, before it leaves')}
        {choice('moves', 'Move partitions that I name')}
        {choice('partitions', 'Another number of partitions')}
      </fieldset>
      <fieldset disabled={busy} className="how">
        <legend className="unseen">How</legend>
        {goal === 'workers' && (
          <label className="field">
            <span>Workers, of {workers.length}</span>
            <input
              type="number"
              min={1}
              max={workers.length}
              value={many}
              required
              onChange={event => setMany(event.target.value)}
            />
          </label>
        )}
        {goal === 'only' && (
          <div className="field" role="group" aria-label="Workers that are to have all">
            <span>Workers that are to have all</span>
            <div className="filters">
              {workers.map(worker => (
                <label key={worker}>
                  <input
                    type="checkbox"
                    checked={chosen.includes(worker)}
                    onChange={event =>
                      setList(
                        workers.filter(one => (one === worker ? event.target.checked : chosen.includes(one))).join(','),
                      )
                    }
                  />{' '}
                  {worker}
                </label>
              ))}
            </div>
          </div>
        )}
        {goal === 'moves' && (
          <label className="field">
            <span>Partitions</span>
            <input value={moved} placeholder="3, 17-20" onChange={event => setMoved(event.target.value)} required />
          </label>
        )}
        {(goal === 'empty' || goal === 'moves') && (
          <label className="field">
            <span>{goal === 'empty' ? 'Worker to empty' : 'Worker that is to have them'}</span>
            <select value={worker} onChange={event => setWorker(event.target.value)}>
              {workers.map(worker => (
                <option key={worker}>{worker}</option>
              ))}
            </select>
          </label>
        )}
        {goal === 'partitions' && (
          <label className="field">
            <span>
              Partitions <span className="quiet">a multiple of the first number, up to 65,536</span>
            </span>
            <input
              type="number"
              min={1}
              max={65536}
              value={parts}
              placeholder={String(Math.min(65536, 2 * partitions))}
              required
              onChange={event => setParts(event.target.value)}
            />
          </label>
        )}
        {goal !== 'moves' && goal !== 'partitions' && (
          <label className="field">
            <span>Shares are even by</span>
            <select value={by} onChange={event => setBy(event.target.value as By)}>
              <option value="load">load: bytes and calls</option>
              <option value="partitions">number of partitions</option>
            </select>
          </label>
        )}
        <label className="field">
          <span>When they change their worker</span>
          <select value={mode} onChange={event => setMode(event.target.value as Mode)}>
            {MODES.map(mode => (
              <option key={mode} value={mode}>
                {modes[mode]}
              </option>
            ))}
          </select>
        </label>
        {goal !== 'partitions' && (
          <label className="field">
            <span>
              Most that each worker copies, MiB a second{' '}
              <span className="quiet">the coordinator’s limit, if empty</span>
            </span>
            <input inputMode="decimal" value={limit} onChange={event => setLimit(event.target.value)} />
          </label>
        )}
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
  /** So many there are. */
  partitions: number;
  denied: string;
  busy: boolean;
  /** What was planned is not what is wanted any more. */
  onEdit: () => void;
  onAsk: (wanted: Wanted) => void;
}

/** Whether anything would be otherwise. */
const doesSomething = (plan: Schemas['Plan']) => plan.partitions > 0 || plan.repartitioned != null;

/** What a plan would do to each worker. */
function PlanTable({ plan }: { plan: Schemas['Plan'] }) {
  return (
    <>
      <p>
        {plan.repartitioned
          ? 'Each worker divides what it has; nothing goes to another one'
          : `${plural(plan.entities, 'entity', 'entities')} of ${bytes(plan.bytes)} go along`}
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
