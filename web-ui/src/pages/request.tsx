// One request: what its time went into, what was executed, whom it called, with whom it conflicted.
import { Link } from 'wouter';
import { path, type Schemas } from '../api/client';
import { useAppsByName, useTrace } from '../api/hooks';
import { Card, Figure, Notice, Page, Pending, Table, Tag, number } from '../components/basics';
import { CallGraph } from '../components/call-graph';
import { Phases } from '../components/phases';
import { languageOf, located } from '../lib/languages';
import { bytes, count, exact, instant, line, plural, seconds } from '../lib/format';
import { Line } from './logs';
import { End } from './requests';

type Attempt = Schemas['TraceAttempt'];

const KIND: Record<string, string> = {
  lock_free: 'Lock-free',
  fallback: 'Fallback, under locks',
  cached: 'Fallback, calls where they belong',
  strict: 'Strictly, one call after the other',
  long: 'Beside the epochs',
};

const OUTCOME: Record<string, string> = {
  ok: 'ran to its end',
  drifted: 'left its footprint, and was moved to the next epoch',
  postponed: 'needs more fuel than an epoch has',
  open: 'not known here',
};

export function Request({ id }: { id: string }) {
  const found = useTrace(id);
  const trace = found.data;
  const language = useLanguages(trace);
  const took = trace?.ended_us ? (trace.ended_us - trace.begun_us) / 1e6 : undefined;
  return (
    <Page
      title={trace ? `${trace.operator}.${trace.function}` : 'Request'}
      trail={[['Requests', '/requests']]}
      lead={
        trace && (
          <>
            <Link href={path('apps', trace.app)}>{line(trace.app)}</Link>, entity{' '}
            <Link href={path('state', trace.app, trace.operator, trace.key)}>
              <bdi>{line(trace.key)}</bdi>
            </Link>
            , <code>{trace.request_id}</code>
          </>
        )
      }
    >
      <Pending of={found} />
      {trace && (
        <>
          {trace.code && (
            <Notice
              kind="bad"
              title={
                <>
                  <code>{trace.code}</code> <bdi>{line(trace.message ?? '')}</bdi>
                </>
              }
            />
          )}
          <div className="figures five">
            <Figure name="End" value={trace.status} />
            <Figure name="Took" value={took === undefined ? '–' : seconds(took)} />
            <Figure name="Executions" value={trace.attempts.length} />
            <Figure name="Transaction" value={trace.tid == null ? '–' : exact(trace.tid)} />
            <Figure name="Epoch" value={trace.epoch == null ? '–' : exact(trace.epoch)} />
          </div>
          <Card title="Time" note={instant(new Date(trace.begun_us / 1000).toISOString())}>
            <Phases phases={trace.phases} />
          </Card>
          {trace.attempts.map((attempt, at) => (
            <Execution key={at} attempt={attempt} number={at + 1} of={trace.attempts.length} language={language} />
          ))}
          <Card title="Log" note={plural(trace.logs.length, 'line')}>
            {trace.logs.length === 0 ? (
              <p className="empty">It has logged nothing, or its lines are forgotten.</p>
            ) : (
              <ol className="lines" aria-label="Log lines">
                {trace.logs.map(one => (
                  <Line key={`${one.worker}-${one.sequence}`} line={one} brief />
                ))}
              </ol>
            )}
          </Card>
        </>
      )}
    </Page>
  );
}

/** In which language operators are written that a request has called: as the versions in force say. */
function useLanguages(trace: Schemas['RequestTrace'] | undefined): (operator: string) => string {
  const calls = trace?.attempts.flatMap(({ calls }) => calls) ?? [];
  const own = trace?.app ?? '';
  const apps = [...new Set(calls.map(({ operator }) => located(operator, own)[0]))];
  const found = useAppsByName(apps);
  return called => {
    const [app, operator] = located(called, own);
    const view = found[apps.indexOf(app)]?.data?.operators.find(({ name }) => name === operator);
    return languageOf(view?.sdk ?? '');
  };
}

interface ExecutionProps {
  attempt: Attempt;
  number: number;
  of: number;
  language: (operator: string) => string;
}

function Execution({ attempt, number: at, of, language }: ExecutionProps) {
  const title = `${of > 1 ? `${at}. ` : ''}${KIND[attempt.kind] ?? attempt.kind}`;
  const took = seconds((attempt.ended_us - attempt.begun_us) / 1e6);
  return (
    <Card
      title={title}
      note={
        <>
          {took} · fuel {count(attempt.fuel)} · {plural(attempt.calls.length, 'call')} ·{' '}
          {attempt.code ? <End status="" code={attempt.code} message={attempt.message} /> : OUTCOME[attempt.outcome]}
        </>
      }
    >
      {attempt.calls.length > 0 && (
        <CallGraph calls={attempt.calls} name={`Call graph, execution ${at}`} language={language} />
      )}
      {attempt.cut && <Notice kind="info" title="There was more than is kept" />}
      {attempt.conflicts.length > 0 && (
        <Table label={`Conflicts of execution ${at}`} columns={['Conflicts with', 'Which', 'Entity', 'Request']}>
          {attempt.conflicts.map((one, index) => (
            <tr key={index}>
              <td>
                TID <code>{exact(one.tid)}</code>, before it
              </td>
              <td>{one.did}</td>
              <td>
                <bdi>{line(`${one.operator}/${one.key}`)}</bdi>
              </td>
              <td>
                <Link href={path('requests', one.request_id)}>{one.request_id.slice(0, 8)}…</Link>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {attempt.accesses.length > 0 && (
        <details>
          <summary>RW set: {plural(attempt.accesses.length, 'entity', 'entities')}</summary>
          <Table label={`RW set of execution ${at}`} columns={['Entity', 'Read', 'Written', number('Bytes')]}>
            {attempt.accesses.map((one, index) => (
              <tr key={index}>
                <td>
                  <bdi>{line(`${one.operator}/${one.key}`)}</bdi> {one.range && <Tag>range</Tag>}
                </td>
                <td>{one.read ? 'read' : ''}</td>
                <td>{one.deleted ? 'deleted' : one.written ? 'written' : ''}</td>
                <td className="number">{one.bytes == null ? '' : bytes(one.bytes)}</td>
              </tr>
            ))}
          </Table>
        </details>
      )}
    </Card>
  );
}
