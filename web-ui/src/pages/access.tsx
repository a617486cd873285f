// Who may do what: tokens of the log, and who looks at this.
import { useState, type FormEvent } from 'react';
import type { Schemas } from '../api/client';
import { connect } from '../api/events';
import { issue, revoke, useApps, useAudit, useChange, useIdentity, useMay, useTokens } from '../api/hooks';
import { setToken, token } from '../api/token';
import {
  Age,
  Button,
  Card,
  Command,
  Confirm,
  Copy,
  ErrorNotice,
  Notice,
  Page,
  Pending,
  Table,
  Tag,
} from '../components/basics';
import { instant, line } from '../lib/format';

type Scope = Schemas['Scope'];

const SCOPES: [Scope, string][] = [
  ['invoke', 'calls of functions'],
  ['read', 'looks at everything'],
  ['deploy', 'deploying and removing apps'],
  ['operate', 'all else, tokens included'],
];

/** Who has changed what at this address. */
function Audit() {
  const audit = useAudit();
  const entries = audit.data?.entries ?? [];
  return (
    <Card title="Who has changed what" note="here, since the process began; the whole is in the server’s log">
      <Pending of={audit} />
      {audit.data && entries.length === 0 && <p className="empty">Nobody has changed anything.</p>}
      {entries.length > 0 && (
        <Table label="Who has changed what" columns={['When', 'Who', 'From', 'What', 'Came to']}>
          {entries.slice(0, 100).map((entry, at) => (
            <tr key={at}>
              <Age of={entry.time_us} />
              <td>
                <bdi>{line(entry.identity)}</bdi>
              </td>
              <td>{entry.from ?? ''}</td>
              <td>
                <code>
                  {entry.method} <bdi>{line(entry.path)}</bdi>
                </code>
              </td>
              <td>
                <Tag kind={entry.status < 400 ? 'good' : 'bad'}>{entry.status}</Tag>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

export function Access() {
  const identity = useIdentity();
  const { may, why } = useMay('operate');
  const tokens = useTokens(may);
  const [issued, setIssued] = useState<Schemas['Issued'] | null>(null);
  const [revoked, setRevoked] = useState<Schemas['TokenView'] | null>(null);
  const change = useChange(revoke, 'catalog');
  return (
    <Page
      title="Access"
      lead={
        identity.data &&
        (identity.data.known ? <>You are “{line(identity.data.name)}”</> : 'Nobody is asked for a token')
      }
    >
      <Pending of={identity} />
      {identity.data && !identity.data.known && (
        <Notice kind="info" title="Whoever reaches the ports may do everything">
          They listen on the loopback only. To ask for tokens:
          <Command>
            {'(umask 077; openssl rand -hex 32 > admin.token)\nstyx server --admin-token-file admin.token'}
          </Command>
        </Notice>
      )}
      {identity.data?.known && (
        <Card title="This page">
          <p>
            {identity.data.scopes.map(scope => (
              <Tag key={scope} kind="accent">
                {scope}
              </Tag>
            ))}{' '}
            {identity.data.apps ? `on ${identity.data.apps.map(line).join(', ')}` : 'on all apps'}
          </p>
          {token() && (
            <Button
              onClick={() => {
                setToken(null);
                connect();
                void identity.refetch();
              }}
            >
              Forget the token
            </Button>
          )}
        </Card>
      )}
      {!may && identity.data && (
        <Notice kind="info" title="Tokens are shown to those who may issue them">
          {why}
        </Notice>
      )}
      {may && (
        <>
          {issued && (
            <Notice kind="good" title={`The token “${line(issued.name)}” is shown now, and never again`}>
              <div className="command">
                <pre tabIndex={0}>{issued.token}</pre>
                <Copy text={issued.token} label="Copy token" />
              </div>
              <Button kind="quiet" onClick={() => setIssued(null)}>
                I have it
              </Button>
            </Notice>
          )}
          <Card title="Tokens">
            <Pending of={tokens} />
            {tokens.data &&
              (tokens.data.tokens.length === 0 ? (
                <p className="empty">None has been issued.</p>
              ) : (
                <Table label="Tokens" columns={['Name', 'Scopes', 'Apps', 'Issued', 'Expires', '']}>
                  {tokens.data.tokens.map(view => (
                    <tr key={view.id}>
                      <td>
                        <bdi>{line(view.name)}</bdi> <code className="quiet">{view.id}</code>
                      </td>
                      <td>
                        {view.scopes.map(scope => (
                          <Tag key={scope}>{scope}</Tag>
                        ))}
                      </td>
                      <td>{view.apps ? view.apps.map(line).join(', ') : <span className="quiet">all</span>}</td>
                      <Age of={view.created} />
                      <td>
                        {view.expired ? (
                          <Tag kind="bad">expired</Tag>
                        ) : view.expires ? (
                          instant(view.expires)
                        ) : (
                          <span className="quiet">never</span>
                        )}
                      </td>
                      <td className="number">
                        <Button onClick={() => setRevoked(view)}>Revoke</Button>
                      </td>
                    </tr>
                  ))}
                </Table>
              ))}
          </Card>
          {identity.data?.known && <Issue onIssued={setIssued} />}
        </>
      )}
      {may && <Audit />}
      {revoked && (
        <Confirm
          title={`Revoke “${line(revoked.name)}”?`}
          action="Revoke"
          busy={change.isPending}
          error={change.error}
          onClose={() => {
            change.reset();
            setRevoked(null);
          }}
          onConfirm={() => change.mutate(revoked.id, { onSuccess: () => setRevoked(null) })}
        >
          <p>It is worth nothing at once, on open connections as well.</p>
        </Confirm>
      )}
    </Page>
  );
}

function Issue({ onIssued }: { onIssued: (issued: Schemas['Issued']) => void }) {
  const apps = useApps();
  const change = useChange(issue, 'catalog');
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<Scope[]>(['read']);
  const [app, setApp] = useState('');
  const [life, setLife] = useState('90d');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const wanted = { name, scopes, apps: app ? [app] : null, expires_in: life || null };
    change.mutate(wanted, {
      onSuccess: issued => {
        setName('');
        onIssued(issued);
      },
    });
  };
  return (
    <Card title="Issue one">
      <form className="issue" onSubmit={submit}>
        <label className="field">
          <span>Name, for people</span>
          <input value={name} required maxLength={64} onChange={event => setName(event.target.value)} />
        </label>
        <fieldset>
          <legend>It covers</legend>
          {SCOPES.map(([scope, what]) => (
            <label key={scope}>
              <input
                type="checkbox"
                checked={scopes.includes(scope)}
                onChange={event =>
                  setScopes(event.target.checked ? [...scopes, scope] : scopes.filter(known => known !== scope))
                }
              />{' '}
              <b>{scope}</b> <span className="quiet">{what}</span>
            </label>
          ))}
        </fieldset>
        <label className="field">
          <span>App</span>
          <select value={app} onChange={event => setApp(event.target.value)}>
            <option value="">all, and what concerns no single app</option>
            {apps.data?.apps.map(app => (
              <option key={app.name} value={app.name}>
                {line(app.name)}
              </option>
            ))}
          </select>
        </label>
        <label className="field">
          <span>Good for</span>
          <select value={life} onChange={event => setLife(event.target.value)}>
            <option value="1h">an hour</option>
            <option value="1d">a day</option>
            <option value="30d">30 days</option>
            <option value="90d">90 days</option>
            <option value="">ever</option>
          </select>
        </label>
        <ErrorNotice error={change.error} />
        <Button type="submit" kind="primary" busy={change.isPending} disabled={scopes.length === 0}>
          Issue
        </Button>
      </form>
    </Card>
  );
}
