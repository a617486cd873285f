// Partitions change their workers while everything goes on.
import { useEffect, useState, type FormEvent } from 'react';
import { send, type Schemas } from '../api/client';
import { useChange, useCluster, useMay, usePartitions, useWorkers } from '../api/hooks';
import { Button, Card, Confirm, ErrorNotice, Notice, Page, Pending } from '../components/basics';
import { PartitionMap } from '../components/partition-map';
import { plural } from '../lib/format';

type Wanted = Partial<Schemas['MigrationRequest']>;

const start = (wanted: Wanted) => send<Schemas['Migrated']>('POST', '/v1/migrations', wanted);
const cancel = () => send<Schemas['MigrationCancelled']>('DELETE', '/v1/migrations');

export function Migrations() {
  const cluster = useCluster();
  const workers = useWorkers();
  const partitions = usePartitions();
  const { why } = useMay('operate');
  const migration = useChange(start, 'cluster');
  const cancellation = useChange(cancel, 'cluster');
  const [goal, setGoal] = useState<'balance' | 'empty' | 'moves'>('balance');
  const [worker, setWorker] = useState('1');
  const [moved, setMoved] = useState('');
  const [asked, setAsked] = useState<Wanted | null>(null);
  const [wrong, setWrong] = useState('');
  const elapsed = useElapsed(migration.isPending);
  const single = cluster.data?.mode === 'single-process';
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const list = numbers(moved);
    setWrong('');
    if (goal === 'balance') setAsked({ balance: true });
    else if (goal === 'empty') setAsked({ empty: Number(worker) });
    else if (list) setAsked({ moves: list.map(partition => ({ partition, worker: Number(worker) })) });
    else setWrong('Partitions are numbers and ranges, such as 3, 17-20');
  };
  return (
    <Page title="Migrations" lead="Partitions change their workers while calls go on">
      <Pending of={cluster} />
      {single && (
        <Notice kind="info" title="There is one worker">
          In a cluster of several, partitions are moved here.
        </Notice>
      )}
      {!single && workers.data && (
        <Card title="Start one">
          <form onSubmit={submit} className="goal">
            <fieldset disabled={migration.isPending}>
              <legend className="unseen">What is wanted</legend>
              <label>
                <input type="radio" name="goal" checked={goal === 'balance'} onChange={() => setGoal('balance')} /> Even
                shares for all workers
              </label>
              <label>
                <input type="radio" name="goal" checked={goal === 'empty'} onChange={() => setGoal('empty')} /> Empty a
                worker, before it leaves
              </label>
              <label>
                <input type="radio" name="goal" checked={goal === 'moves'} onChange={() => setGoal('moves')} /> Move
                partitions that I name
              </label>
              {goal === 'moves' && (
                <label className="field">
                  <span>Partitions</span>
                  <input
                    value={moved}
                    placeholder="3, 17-20"
                    onChange={event => setMoved(event.target.value)}
                    required
                  />
                </label>
              )}
              {goal !== 'balance' && (
                <label className="field">
                  <span>{goal === 'empty' ? 'Worker to empty' : 'Worker that is to have them'}</span>
                  <select value={worker} onChange={event => setWorker(event.target.value)}>
                    {workers.data.workers.map(({ worker }) => (
                      <option key={worker}>{worker}</option>
                    ))}
                  </select>
                </label>
              )}
            </fieldset>
            {wrong && <Notice kind="bad" title={wrong} />}
            <div className="actions">
              <Button type="submit" kind="primary" denied={why} busy={migration.isPending}>
                {migration.isPending ? `Moving, for ${elapsed} s` : 'Start'}
              </Button>
              <Button denied={why} busy={cancellation.isPending} onClick={() => cancellation.mutate(undefined)}>
                Cancel what is under way
              </Button>
            </div>
          </form>
          <div aria-live="polite">
            <ErrorNotice error={migration.error} />
            {!migration.error && <ErrorNotice error={cancellation.error} />}
            {migration.data && <Notice kind="good" title="All partitions are where they were to go" />}
          </div>
        </Card>
      )}
      <Card title="Partitions" note={workers.data && plural(workers.data.workers.length, 'worker')}>
        <Pending of={partitions} />
        {partitions.data && <PartitionMap partitions={partitions.data.partitions} moving={new Set()} />}
      </Card>
      {asked && (
        <Confirm
          title="Move partitions?"
          action="Start"
          kind="primary"
          onClose={() => setAsked(null)}
          onConfirm={() => {
            migration.mutate(asked);
            setAsked(null);
          }}
        >
          <p>Calls go on meanwhile. What is under way can be cancelled until it takes effect.</p>
        </Confirm>
      )}
    </Page>
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

function useElapsed(running: boolean): number {
  const [elapsed, setElapsed] = useState(0);
  useEffect(() => {
    if (!running) return;
    const started = Date.now();
    setElapsed(0);
    const timer = setInterval(() => setElapsed(Math.round((Date.now() - started) / 1000)), 500);
    return () => clearInterval(timer);
  }, [running]);
  return elapsed;
}
