// Uploads of apps: dropped or chosen, checked first, deployed when that is wanted.
import { useEffect, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { isForcible, isRekeying, path, request, type ApiError, type Schemas } from '../api/client';
import { options, useChange, useMay, type Agreed } from '../api/hooks';
import { bytes, line, plural } from '../lib/format';
import { Button, Confirm, ErrorNotice, Notice, Table, Tag } from './basics';

interface Given extends Agreed {
  app: string;
  file: File;
}

async function send(app: string, file: File, wanted: string): Promise<Schemas['Deployed']> {
  const start = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  const isComponent = start[0] === 0 && start[1] === 0x61;
  const type = isComponent ? 'application/wasm' : 'application/zip';
  const to = `${path('v1', 'apps', app, 'deployments')}${wanted}`;
  return (await request('POST', to, file, { 'content-type': type })).json() as Promise<Schemas['Deployed']>;
}

/** Says as well what would be placed anew. */
const check = ({ app, file }: Given) => send(app, file, options({ dry_run: true, rekey: true }));
const deploy = ({ app, file, ...agreed }: Given) => send(app, file, options(agreed));

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

interface RekeyingProps {
  rekeyed: Schemas['Rekeyed'][];
  agreed: boolean;
  onChange: (agreed: boolean) => void;
}

/** What the version would place anew: done if that is agreed to. */
function Rekeying({ rekeyed, agreed, onChange }: RekeyingProps) {
  return (
    <Notice kind="warn" title="Entities live elsewhere with it">
      {rekeyed.map(({ operator, key_prefix: prefix, entities }) => (
        <div key={operator}>
          Keys of <b>{line(operator)}</b> {prefix == null ? 'lose their prefix' : `get the prefix ${line(prefix)}`}:{' '}
          {plural(entities, 'entity', 'entities')}
        </div>
      ))}
      <label>
        <input type="checkbox" checked={agreed} onChange={event => onChange(event.target.checked)} /> Place them anew;
        calls wait as long
      </label>
    </Notice>
  );
}

export function Upload({ app: fixed }: { app?: string }) {
  const { may, why } = useMay('deploy', fixed);
  const [file, setFile] = useState<File | null>(null);
  const [name, setName] = useState(fixed ?? '');
  const [over, setOver] = useState(false);
  /** What is to be done though it was refused for this. */
  const [forcing, setForcing] = useState<ApiError | null>(null);
  const [rekey, setRekey] = useState(false);
  /** What the last check found, if it can be deployed. */
  const [checked, setChecked] = useState<Schemas['Deployed'] | null>(null);
  const [, navigate] = useLocation();
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const checking = useChange(check);
  const really = useChange(deploy, 'catalog');
  const take = (file: File | undefined) => {
    if (!file) return;
    setFile(file);
    checking.reset();
    really.reset();
    setRekey(false);
    const app = fixed ?? (name || file.name.replace(/\.(zip|wasm|styx)$/, '').replace(/[^a-z0-9_-]/gi, '-'));
    setName(app);
    setChecked(null);
    ask(app, file);
  };
  const ask = (app: string, file: File) =>
    checking.mutate({ app, file }, { onSuccess: setChecked, onError: () => setChecked(null) });
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
    // By force it was not found out before; whoever is told and goes on agrees.
    const agreed = { force, rekey: rekey || isRekeying(really.error) };
    setRekey(agreed.rekey);
    really.mutate({ app: name, file, ...agreed }, { onSuccess: () => navigate(`/apps/${encodeURIComponent(name)}`) });
  };
  const error = really.error ?? checking.error;
  const rekeyed = checked?.rekeyed ?? [];
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
        <Button denied={why} onClick={() => input.current?.click()} busy={checking.isPending}>
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
            <Button kind="danger" denied={why} onClick={() => setForcing(error)}>
              Deploy it all the same
            </Button>
          )}
          {forcing && (
            <Confirm
              title={`Deploy ${line(name)} although it does not fit?`}
              action={
                rekey || isRekeying(really.error) ? 'Deploy by force, and place entities anew' : 'Deploy by force'
              }
              repeat={name}
              busy={really.isPending}
              error={really.error}
              onClose={() => {
                setForcing(null);
                setRekey(false);
                really.reset();
              }}
              onConfirm={() => go(true)}
            >
              <p>
                <bdi>{line(forcing.message)}</bdi>
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
              {rekeyed.length > 0 && <Rekeying rekeyed={rekeyed} agreed={rekey} onChange={setRekey} />}
              <Button
                kind="primary"
                onClick={() => go(false)}
                busy={really.isPending}
                disabled={!name || (rekeyed.length > 0 && !rekey)}
              >
                Deploy {line(name)}
              </Button>
            </>
          )}
        </div>
      )}
    </div>
  );
}
