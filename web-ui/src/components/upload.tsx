// Uploads of apps: dropped or chosen, checked first, deployed when that is wanted.
import { useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { isForcible, path, request, type Schemas } from '../api/client';
import { useChange, useMay } from '../api/hooks';
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
  const to = `${path('v1', 'apps', app, 'deployments')}?dry_run=${dryRun}&force=${force}`;
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
  const [, navigate] = useLocation();
  const input = useRef<HTMLInputElement>(null);
  const check = useChange(deploy);
  const really = useChange(deploy, 'catalog');
  const take = (file: File | undefined) => {
    if (!file) return;
    setFile(file);
    check.reset();
    really.reset();
    const app = fixed ?? (name || file.name.replace(/\.(zip|wasm|styx)$/, '').replace(/[^a-z0-9_-]/gi, '-'));
    setName(app);
    check.mutate({ app, file, dryRun: true });
  };
  const go = (force: boolean) =>
    file &&
    really.mutate(
      { app: name, file, dryRun: false, force },
      { onSuccess: () => navigate(`/apps/${encodeURIComponent(name)}`) },
    );
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
              <input
                value={name}
                spellCheck={false}
                onChange={event => setName(event.target.value)}
                onBlur={() => name && check.mutate({ app: name, file, dryRun: true })}
              />
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
          {check.data && !check.error && (
            <>
              <Notice kind="good" title="It can be deployed">
                {check.data.operators.map(operator => (
                  <div key={operator.name}>
                    <b>{line(operator.name)}</b>: {operator.functions.map(line).join(', ')}
                  </div>
                ))}
              </Notice>
              {check.data.changes && <Changes changes={check.data.changes} />}
              <Button kind="primary" onClick={() => go(false)} busy={really.isPending}>
                Deploy {line(name)}
              </Button>
            </>
          )}
        </div>
      )}
    </div>
  );
}
