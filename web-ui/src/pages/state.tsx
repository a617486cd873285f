// Committed state: operators, entities by key, values as they are.
import { useState, type FormEvent } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { ApiError, path, type Schemas } from '../api/client';
import { saveExport, useApps, useChange, useEntity, useEntries } from '../api/hooks';
import { Button, Card, Copy, ErrorNotice, Notice, Page, Pending, Table, Tag } from '../components/basics';
import { Change, hex, isSame, type Encoded } from '../components/change';
import { brief, Text, Value } from '../components/value';
import { ago, bytes, count, line, shorten } from '../lib/format';
import type { Json } from '../lib/json';

const at = (...parts: string[]) => `/${parts.map(encodeURIComponent).join('/')}`;

/** Which operator. */
export function State() {
  const apps = useApps();
  return (
    <Page title="State" lead="What functions have committed, read between two epochs">
      <Pending of={apps} />
      {apps.data?.apps.length === 0 && (
        <p className="empty">
          There is none without an app. <Link href="/apps">Deploy one</Link>
        </p>
      )}
      <div className="cards">
        {apps.data?.apps.map(app => (
          <Card key={app.name} title={<bdi>{line(app.name)}</bdi>}>
            <ul className="list">
              {app.operators.map(operator => (
                <li key={operator.name}>
                  <Link href={at('state', app.name, operator.name)}>
                    <bdi>{line(operator.name)}</bdi>
                  </Link>
                </li>
              ))}
            </ul>
          </Card>
        ))}
      </div>
    </Page>
  );
}

/** Entities of an operator, a page at a time. */
export function Operator({ app, operator }: { app: string; operator: string }) {
  const search = new URLSearchParams(useSearch());
  const prefix = search.get('prefix') ?? '';
  const after = search.get('after') ?? '';
  const [, navigate] = useLocation();
  const page = useEntries(app, operator, prefix, after);
  const change = useChange(saveExport);
  const here = at('state', app, operator);
  const to = (query: Record<string, string>) => {
    const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
    return given.size ? `${here}?${given}` : here;
  };
  return (
    <Page
      title={operator}
      trail={[
        ['State', '/state'],
        [app, `/apps/${encodeURIComponent(app)}`],
      ]}
      lead={page.data && <>As of epoch {count(page.data.epoch)}</>}
      actions={
        <Button busy={change.isPending} onClick={() => change.mutate({ app, operator })}>
          Export all
        </Button>
      }
    >
      <div aria-live="polite">
        <ErrorNotice error={change.error} />
        {change.data && (
          <Notice
            kind="good"
            title={`All entities of ${line(operator)} as of epoch ${count(change.data.epoch)} were saved`}
          >
            As lines of JSON, which <code>styx state import</code> reads.
          </Notice>
        )}
      </div>
      <Search
        key={prefix}
        prefix={prefix}
        onPrefix={prefix => navigate(to({ prefix }))}
        onKey={key => navigate(at('state', app, operator, key))}
      />
      <Pending of={page} />
      {page.data && (
        <Card>
          {page.data.entries.length === 0 ? (
            <p className="empty">
              {prefix ? (
                <>
                  No key begins with “<bdi>{line(prefix)}</bdi>”.
                </>
              ) : after ? (
                'There are no more.'
              ) : (
                'It has no entities yet.'
              )}
            </p>
          ) : (
            <Table label="Entities" className="entries" columns={['Key', 'Value']}>
              {page.data.entries.map(entry => (
                <tr key={entry.key}>
                  <td>
                    <Link href={at('state', app, operator, entry.key)}>
                      <bdi>{shorten(line(entry.key), 80)}</bdi>
                    </Link>
                  </td>
                  <td>
                    {entry.encoding === 'base64' && <Tag>bytes</Tag>}
                    <code dir="auto">{brief(entry.value as Json)}</code>
                  </td>
                </tr>
              ))}
            </Table>
          )}
          <nav className="pager" aria-label="Pages">
            {after && <Link href={to({ prefix })}>First page</Link>}
            {page.data.next != null && <Link href={to({ prefix, after: page.data.next })}>Next page</Link>}
          </nav>
        </Card>
      )}
    </Page>
  );
}

function Search({
  prefix,
  onPrefix,
  onKey,
}: {
  prefix: string;
  onPrefix: (prefix: string) => void;
  onKey: (key: string) => void;
}) {
  const [text, setText] = useState(prefix);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onPrefix(text);
  };
  return (
    <form className="search" role="search" onSubmit={submit}>
      <label className="unseen" htmlFor="prefix">
        Key or what it begins with
      </label>
      <input
        id="prefix"
        type="search"
        value={text}
        placeholder="Key, or what it begins with"
        spellCheck={false}
        onChange={event => setText(event.target.value)}
      />
      <button className="button plain">Begins with</button>
      <button type="button" className="button plain" disabled={!text} onClick={() => onKey(text)}>
        Is this key
      </button>
    </form>
  );
}

/** One entity. */
export function Entity({ app, operator, name }: { app: string; operator: string; name: string }) {
  const entity = useEntity(app, operator, name);
  const { now, write } = entity.data ?? {};
  return (
    <Page
      title={shorten(name, 200)}
      trail={[
        ['State', '/state'],
        [app, `/apps/${encodeURIComponent(app)}`],
        [operator, at('state', app, operator)],
      ]}
      lead={
        now && (
          <>
            Partition {now.partition}, as of epoch {count(now.epoch)}
          </>
        )
      }
      actions={<Copy text={name} label="Copy key" />}
    >
      <Pending of={entity} />
      {now && (
        <Card title="Value" note={now.encoding === 'base64' ? <Tag>bytes that are no JSON</Tag> : undefined}>
          {now.encoding === 'base64' ? <Bytes text={now.value as string} /> : <Value value={now.value as Json} />}
        </Card>
      )}
      {now && write && (
        <Card title="Last write" note="of the requests that were watched">
          {write instanceof ApiError ? <ErrorNotice error={write} /> : <LastWrite {...write} now={now} />}
        </Card>
      )}
    </Page>
  );
}

/** Who wrote it last, as far as anybody has watched, and what that has changed. */
function LastWrite({ recorded, change, now }: Schemas['LastWrite'] & { now: Schemas['EntityView'] }) {
  if (!recorded) {
    return (
      <p className="quiet">
        Not recorded: requests that are watched are (<code>styx-trace: 1</code>, <code>--trace-sample</code>).
      </p>
    );
  }
  // It may have been written after the entity was read.
  const isOfNow = recorded.epoch != null && recorded.epoch <= now.epoch;
  const isKnown = change?.known === 'yes';
  return (
    <>
      <p>
        <Link href={path('requests', recorded.request_id)}>
          <bdi>
            {line(recorded.operator)}.{line(recorded.function)}
          </bdi>
        </Link>{' '}
        of <bdi>{line(recorded.key)}</bdi>, transaction {recorded.tid}
        {recorded.epoch != null && <>, epoch {count(recorded.epoch)}</>},{' '}
        {ago(new Date(recorded.begun_us / 1000).toISOString())}.{' '}
        {!isKnown && <span className="quiet">A request that nobody watched may have come since.</span>}
      </p>
      {isKnown && isOfNow && !isSame(change.after as Encoded, now as Encoded) && (
        <Notice kind="info" title="It is another by now">
          A request that nobody watched has written it since. This is what the one above has changed:
        </Notice>
      )}
      {isKnown && <Change before={change.before as Encoded} after={change.after as Encoded} />}
      {change?.known === 'too_large' && (
        <p className="quiet">What it was before is not kept: it is larger than 4 KiB, or it is one of many.</p>
      )}
    </>
  );
}

/** Bytes as people read them. */
function Bytes({ text }: { text: string }) {
  const raw = atob(text);
  return (
    <>
      <p className="quiet">{bytes(raw.length)}</p>
      <Text text={hex(raw.slice(0, 4096)).join('\n')} />
      {raw.length > 4096 && <p className="quiet">The first 4 KiB.</p>}
      <Copy text={text} label="Copy as base64" />
    </>
  );
}
