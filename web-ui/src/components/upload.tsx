// Uploads of apps: dropped or chosen, checked first, deployed when that is wanted.
import { useEffect, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { isForcible, path, request, type Schemas } from '../api/client';
import { forced, useChange, useMay } from '../api/hooks';
import { bytes, line } from '../lib/format';
import { Button, Confirm, ErrorNotice, Notice, Table, Tag } from './basics';

interface Given {
  app: string;
  file: File;
  dryRun: boolean;
  /** Whatever it takes from others, and whatever it cannot read. */
  force?: boolean;
}

async function deploy({ app, file, dryRun, force = false }: Given): Promise<Schemas['Deployed']> {
  const start = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  const isComponent = start[0] === 0 && start[1] === 0x61;
  const type = isComponent ? 'application/wasm' : 'application/zip';
  const to = `${path('v1', 'apps', app, 'deployments')}${dryRun ? '?dry_run=true' : forced(force)}`;
  return (await request('POST', to, file, { 'content-type': type })).json() as Promise<Schemas['Deployed']>;
}

const KINDS = { added: 'good', removed: 'bad', changed: 'warn' } as const;

/** What the version would change of the one that is live. */
function Changes({ changes: { live, changes } }: { changes: Schemas['Changes'] }) {
  if (live == null) return <p className="quiet">The app is new.</p>;
  if (changes.length === 0) return <p className="quiet">It is what is live already.</p>;
  return (
    <Table label="What it would change" columns={['Change', 'Of', 'Name', 'What']}>
      {changes.map(change => (
        <tr key={`${change.of} ${change.name}`}>
          <td>
            <Tag kind={KINDS[change.kind]}>{change.kind}</Tag>
          </td>
          <td className="quiet">{change.of}</td>
          <td>
            <bdi>{line(change.name)}</bdi>
          </td>
          <td className="quiet">
            {change.details?.map(detail => (
              <div key={detail}>
                <bdi>{line(detail)}</bdi>
              </div>
            ))}
          </td>
        </tr>
      ))}
    </Table>
  );
}

export function Upload({ app: fixed }: { app?: string }) {
  const { may, why } = useMay('deploy', fixed);
  const [file, setFile] = useState<File | null>(null);
  const [name, setName] = useState(fixed ?? '');
  const [over, setOver] = useState(false);
  const [forcing, setForcing] = useState(false);
  /** What the last check found, if it can be deployed. */
  const [checked, setChecked] = useState<Schemas['Deployed'] | null>(null);
  const [, navigate] = useLocation();
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const check = useChange(deploy);
  const really = useChange(deploy, 'catalog');
  const take = (file: File | undefined) => {
    if (!file) return;
    setFile(file);
    check.reset();
    really.reset();
    const app = fixed ?? (name || file.name.replace(/\.(zip|wasm|styx)$/, '').replace(/[^a-z0-9_-]/gi, '-'));
    setName(app);
    setChecked(null);
    ask(app, file);
  };
  const ask = (app: string, file: File) =>
    check.mutate({ app, file, dryRun: true }, { onSuccess: setChecked, onError: () => setChecked(null) });
  // While another name is checked, what is there to be pressed stays.
  const rename = (app: string) => {
    setName(app);
    really.reset();
    clearTimeout(timer.current);
    if (file && app) timer.current = window.setTimeout(() => ask(app, file), 400);
  };
  const go = (force: boolean) => {
    clearTimeout(timer.current);
    if (!file) return;
    really.mutate(
      { app: name, file, dryRun: false, force },
      { onSuccess: () => navigate(`/apps/${encodeURIComponent(name)}`) },
    );
  };
  const error = really.error ?? check.error;
  return (
    <div className="upload">
      <div
        className={`drop ${over ? 'over' : ''}`}
        onDragOver={event => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={event => {
          event.preventDefault();
          setOver(false);
          if (may) take(event.dataTransfer.files[0]);
        }}
      >
        <p>Drop a bundle or a component here. It is checked, and nothing changes yet.</p>
        <Button denied={why} onClick={() => input.current?.click()} busy={check.isPending}>
          Choose a file
        </Button>
        <input
          ref={input}
          type="file"
          className="unseen"
          tabIndex={-1}
          aria-label="Bundle or component"
          accept=".zip,.wasm,.styx"
          disabled={!may}
          onChange={event => {
            take(event.target.files?.[0]);
            event.target.value = '';
          }}
        />
      </div>
      {file && (
        <div className="checked">
          {fixed === undefined && (
            <label className="field">
              <span>Name of the app</span>
              <input value={name} spellCheck={false} onChange={event => rename(event.target.value)} />
            </label>
          )}
          <p className="quiet">
            {line(file.name)}, {bytes(file.size)}
          </p>
          <ErrorNotice error={error} />
          {isForcible(error) && (
            <Button kind="danger" denied={why} onClick={() => setForcing(true)}>
              Deploy it all the same
            </Button>
          )}
          {forcing && (
            <Confirm
              title={`Deploy ${line(name)} although it does not fit?`}
              action="Deploy by force"
              repeat={name}
              busy={really.isPending}
              error={really.error}
              onClose={() => setForcing(false)}
              onConfirm={() => go(true)}
            >
              <p>
                <bdi>{line(error?.message ?? '')}</bdi>
              </p>
              <p>Calls that find nothing to call abort, and functions meet entities as they are.</p>
            </Confirm>
          )}
          {checked && !error && (
            <>
              <Notice kind="good" title="It can be deployed">
                {checked.operators.map(operator => (
                  <div key={operator.name}>
                    <b>{line(operator.name)}</b>: {operator.functions.map(line).join(', ')}
                  </div>
                ))}
              </Notice>
              {checked.changes && <Changes changes={checked.changes} />}
              <Button kind="primary" onClick={() => go(false)} busy={really.isPending} disabled={!name}>
                Deploy {line(name)}
              </Button>
            </>
          )}
        </div>
      )}
    </div>
  );
}
