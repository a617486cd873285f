// Requests that were watched or aborted: the way to why one was slow, or failed.
import { Link } from 'wouter';
import { path } from '../api/client';
import { useApps, useRequests, type RequestKind } from '../api/hooks';
import { useChoice, useParameter } from '../components/address';
import { Age, Card, Command, Page, Pending, Table, Tag, number } from '../components/basics';
import { line, seconds, shorten } from '../lib/format';

const KINDS: readonly RequestKind[] = ['recent', 'slow', 'aborted'];
const NAMES: Record<RequestKind, string> = { recent: 'Recent', slow: 'Slowest', aborted: 'Aborted' };

export function Requests() {
  const [kind, setKind] = useChoice('kind', KINDS, 'recent');
  const [app, setApp] = useParameter('app');
  const apps = useApps();
  const requests = useRequests(kind, app);
  const all = requests.data?.requests ?? [];
  return (
    <Page
      title="Requests"
      lead="Those that were watched, one in so many, those that asked for it, and those that aborted"
      actions={
        <>
          <label className="field inline">
            <span>App</span>
            <select value={app} onChange={event => setApp(event.target.value)}>
              <option value="">All</option>
              {app && apps.data && !apps.data.apps.some(({ name }) => name === app) && (
                <option value={app}>{line(app)}</option>
              )}
              {apps.data?.apps.map(({ name }) => (
                <option key={name} value={name}>
                  {line(name)}
                </option>
              ))}
            </select>
          </label>
          <label className="field inline">
            <span>Show</span>
            <select value={kind} onChange={event => setKind(event.target.value as RequestKind)}>
              {KINDS.map(value => (
                <option key={value} value={value}>
                  {NAMES[value]}
                </option>
              ))}
            </select>
          </label>
        </>
      }
    >
      <Pending of={requests} />
      {requests.data && (
        <Card note={`${requests.data.waiting} wait for their epoch`} title={NAMES[kind]}>
          {all.length === 0 ? (
            <>
              <p className="empty">None yet. Have one watched:</p>
              <Command>{"styx call --trace shop/stock/apple/take '[1]'"}</Command>
            </>
          ) : (
            <Table
              label="Requests"
              columns={['Called', 'End', number('Took'), number('Executions'), number('Epoch'), 'When', 'Request']}
            >
              {all.map(one => (
                <tr key={one.request_id}>
                  <td>
                    <Link href={path('requests', one.request_id)}>
                      <bdi>{line(`${one.app}/${one.operator}.${one.function}`)}</bdi>
                    </Link>{' '}
                    <code>
                      <bdi>{line(shorten(one.key, 40))}</bdi>
                    </code>
                  </td>
                  <td>
                    <End status={one.status} code={one.code} message={one.message} />
                  </td>
                  <td className="number">{one.duration_us == null ? '–' : seconds(one.duration_us / 1e6)}</td>
                  <td className="number">{one.attempts}</td>
                  <td className="number">{one.epoch ?? '–'}</td>
                  <Age of={one.begun_us} />
                  <td>
                    <code title={one.request_id}>{one.request_id.slice(0, 8)}…</code>
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </Card>
      )}
    </Page>
  );
}

export function End({ status, code, message }: { status: string; code?: string | null; message?: string | null }) {
  if (code == null) return <Tag kind={status === 'committed' ? 'good' : 'plain'}>{status}</Tag>;
  return (
    <>
      <Tag kind="bad">{code}</Tag> <bdi>{line(shorten(message ?? '', 80))}</bdi>
    </>
  );
}
