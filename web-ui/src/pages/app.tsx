// An app: its functions, each to be tried, and its versions.
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { isForcible, isRekeying, type Schemas } from '../api/client';
import { activate, remove, saveOpenApi, useApp, useChange, useEntityCounts, useMay, type Agreed } from '../api/hooks';
import { useParameter } from '../components/address';
import { Age, Button, Card, Confirm, ErrorNotice, Notice, Page, Pending, Table, Tag } from '../components/basics';
import { CallForm } from '../components/call-form';
import { Upload } from '../components/upload';
import { useFunctionRates, type FunctionRate } from '../api/rates';
import { bytes, count, exact, line, plural, rate, seconds } from '../lib/format';
import { typeOf } from '../lib/schema';

const at = (...parts: string[]) => `/${parts.map(encodeURIComponent).join('/')}`;

export function App({ name, operator, fn }: { name: string; operator?: string; fn?: string }) {
  const app = useApp(name);
  const [removing, setRemoving] = useState(false);
  const { why } = useMay('deploy', name);
  const description = useChange(saveOpenApi);
  const trail: [string, string][] = [['Apps', '/apps']];
  return (
    <Page
      title={name}
      trail={trail}
      lead={
        app.data && (
          <>
            Version <code>{app.data.active}</code> is in force
          </>
        )
      }
      actions={
        <>
          <Button busy={description.isPending} onClick={() => description.mutate(name)}>
            OpenAPI
          </Button>
          <Button kind="danger" denied={why} onClick={() => setRemoving(true)}>
            Delete
          </Button>
        </>
      }
    >
      <Pending of={app} />
      <ErrorNotice error={description.error} />
      {app.data && (
        <>
          <div className="app-columns">
            <Functions app={name} operators={app.data.operators} operator={operator} fn={fn} />
            <div>
              <Try app={app.data} operator={operator} fn={fn} />
            </div>
          </div>
          <OtherApps app={app.data} />
          <Versions app={app.data} />
          <div className="columns">
            <Card title="Deploy a new version">
              <Upload app={name} />
            </Card>
            <Limits limits={app.data.limits} />
          </div>
        </>
      )}
      {removing && app.data && <Removal app={app.data} onClose={() => setRemoving(false)} />}
    </Page>
  );
}

/** What calls go on from here to other apps, and from them to here; nothing, if there are none. */
function OtherApps({ app }: { app: Schemas['AppView'] }) {
  const { exports, imports, imported_by: importers } = app;
  if (exports.length + imports.length + importers.length === 0) return null;
  const functions = (names: string[] | null | undefined) =>
    names == null ? 'all functions' : names.map(line).join(', ');
  return (
    <Card title="Other apps" note="calls between apps are part of one transaction">
      <Table label="Calls between apps" columns={['', 'Operator', 'Functions', 'Apps']}>
        {imports.map(each => (
          <tr key={`calls ${each.operator}`}>
            <td>calls</td>
            <td>
              <code>{line(each.operator)}</code>
            </td>
            <td>{functions(each.functions)}</td>
            <td>
              <AppLink name={each.operator.split('/')[0]!} />
            </td>
          </tr>
        ))}
        {exports.map(each => (
          <tr key={`offers ${each.operator}`}>
            <td>offers</td>
            <td>
              <code>{line(each.operator)}</code>
            </td>
            <td>{functions(each.functions)}</td>
            <td>{each.to == null ? 'any' : each.to.map(name => <AppLink key={name} name={name} />)}</td>
          </tr>
        ))}
      </Table>
      {importers.length > 0 && (
        <p className="quiet">
          Called by{' '}
          {importers.map(name => (
            <AppLink key={name} name={name} />
          ))}
        </p>
      )}
    </Card>
  );
}

function AppLink({ name }: { name: string }) {
  return (
    <>
      <Link href={at('apps', name)}>
        <bdi>{line(name)}</bdi>
      </Link>{' '}
    </>
  );
}

/** What a function does: since the last reading, or since the process began where nothing has come since. */
function Figures({ of }: { of: FunctionRate | undefined }) {
  if (!of) return null;
  return (
    <p className="quiet figures-line">
      {rate(of.perSecond)}/s · {plural(of.calls, 'call')}
      {of.p50 !== null && of.p99 !== null && ` · p50 ${seconds(of.p50)}, p99 ${seconds(of.p99)}`}
      {of.fuel !== null && (
        <span title="of an invocation, without what it calls: the mean"> · fuel {count(Math.round(of.fuel))}</span>
      )}
      {of.aborted > 0 && ` · ${count(of.aborted)} aborted`}
      {of.failed > 0 && ` · ${count(of.failed)} failed`}
    </p>
  );
}

/** More functions than this are looked for by name. */
const FUNCTIONS_SHOWN = 40;

interface FunctionsProps {
  app: string;
  operators: Schemas['OperatorView'][];
  operator: string | undefined;
  fn: string | undefined;
}

/** All functions, by operator; of very many those that are looked for. */
function Functions({ app, operators, operator, fn }: FunctionsProps) {
  const [wanted, setWanted] = useParameter('find');
  const all = operators.reduce((sum, { functions }) => sum + functions.length, 0);
  const found = operators
    .map(view => ({
      ...view,
      functions: view.functions.filter(fn => `${view.name}.${fn.name}`.toLowerCase().includes(wanted.toLowerCase())),
    }))
    .filter(view => view.functions.length > 0 || wanted === '');
  const matching = found.reduce((sum, { functions }) => sum + functions.length, 0);
  let room = FUNCTIONS_SHOWN;
  return (
    <Card title="Functions" className="functions" note={all > FUNCTIONS_SHOWN && plural(all, 'function')}>
      {all > FUNCTIONS_SHOWN && (
        <label className="field">
          <span>Find by name</span>
          <input type="search" value={wanted} spellCheck={false} onChange={event => setWanted(event.target.value)} />
        </label>
      )}
      {found.map(view => {
        const functions = view.functions.slice(0, room);
        room -= functions.length;
        return functions.length > 0 || view.functions.length === 0 ? (
          <Operator
            key={view.name}
            app={app}
            view={{ ...view, functions }}
            open={operator === view.name ? fn : undefined}
            search={wanted && `?${new URLSearchParams({ find: wanted })}`}
          />
        ) : null;
      })}
      {matching > FUNCTIONS_SHOWN && (
        <p className="quiet">{plural(matching - FUNCTIONS_SHOWN, 'more function')}: look for them by name.</p>
      )}
      {matching === 0 && wanted !== '' && <p className="empty">None has this in its name.</p>}
    </Card>
  );
}

interface OperatorProps {
  app: string;
  view: Schemas['OperatorView'];
  open: string | undefined;
  /** What stays in the address. */
  search: string;
}

function Operator({ app, view, open, search }: OperatorProps) {
  const traffic = useFunctionRates(app);
  return (
    <section className="operator">
      <h3>
        <bdi>{line(view.name)}</bdi>
        {view.key_prefix && <Tag>keys {line(view.key_prefix)}:…</Tag>}
        {view.isolation === 'fresh' && <Tag>fresh instances</Tag>}
        <Link className="quiet" href={at('state', app, view.name)}>
          state
        </Link>
      </h3>
      {view.doc && <p className="quiet doc">{line(view.doc)}</p>}
      <ul>
        {view.functions.map(fn => (
          <li key={fn.name}>
            <Link
              href={at('apps', app, view.name, fn.name) + search}
              className={open === fn.name ? 'signature open' : 'signature'}
              aria-current={open === fn.name ? 'true' : undefined}
            >
              <span>
                <b>{line(fn.name)}</b>(
                {fn.parameters.map((parameter, index) => (
                  <span key={parameter.name}>
                    {index > 0 && ', '}
                    {line(parameter.name)}
                    {!parameter.required && '?'}: <i>{typeOf(parameter.schema)}</i>
                  </span>
                ))}
                ) → <i>{typeOf(fn.returns)}</i>
              </span>
              {fn.read_only && <Tag kind="accent">reads</Tag>}
            </Link>
            {fn.doc && <p className="quiet doc">{line(fn.doc)}</p>}
            <Figures of={traffic(view.name, fn.name)} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Try({ app, operator, fn }: { app: Schemas['AppView']; operator: string | undefined; fn: string | undefined }) {
  const view = app.operators.find(view => view.name === operator);
  const found = view?.functions.find(view => view.name === fn);
  if (!view || !found) {
    return (
      <Card title="Try a function">
        <p className="empty">{fn ? 'The version in force has no such function.' : 'Choose one to call it.'}</p>
      </Card>
    );
  }
  return <CallForm key={`${operator}/${fn}`} app={app.name} operator={view} fn={found} />;
}

function Versions({ app }: { app: Schemas['AppView'] }) {
  const [chosen, setChosen] = useState<Schemas['DeploymentView'] | null>(null);
  const [agreed, setAgreed] = useState<Agreed>({});
  const change = useChange(activate, 'catalog');
  const { why } = useMay('deploy', app.name);
  // Whoever is told why it was refused and goes on agrees.
  const force = agreed.force || isForcible(change.error);
  const rekey = agreed.rekey || isRekeying(change.error);
  const activeAt = app.deployments.findIndex(view => view.active);
  return (
    <Card title="Versions" note="newest first">
      <Table label="Versions" columns={['Version', 'Deployed', 'Components', 'Operators', '']}>
        {app.deployments.map((view, index) => (
          <tr key={view.deployment}>
            <td>
              <code>{view.deployment}</code> {view.active && <Tag kind="good">in force</Tag>}
            </td>
            <Age of={view.created} />
            <td className="quiet">
              {view.components.map(component => (
                <div key={component.digest} title={component.digest}>
                  {line(component.name)} {bytes(component.size)} {component.sdk && `· ${line(component.sdk)}`}
                </div>
              ))}
            </td>
            <td className="quiet">{view.operators.map(operator => line(operator.name)).join(', ')}</td>
            <td className="number">
              {!view.active && (
                <Button denied={why} onClick={() => setChosen(view)}>
                  {index > activeAt ? 'Roll back to it' : 'Activate'}
                </Button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      {chosen && (
        <Confirm
          title={`Have ${line(app.name)} run ${chosen.deployment}?`}
          action={force ? 'Activate it all the same' : rekey ? 'Activate it, and place entities anew' : 'Activate'}
          kind={force ? 'danger' : 'primary'}
          busy={change.isPending}
          error={change.error}
          onClose={() => {
            change.reset();
            setAgreed({});
            setChosen(null);
          }}
          onConfirm={() => {
            setAgreed({ force, rekey });
            change.mutate(
              { app: app.name, id: chosen.deployment, force, rekey },
              {
                onSuccess: () => {
                  setAgreed({});
                  setChosen(null);
                },
              },
            );
          }}
        >
          <p>
            It takes effect between two epochs. State stays as it is
            {rekey ? ', and goes to where its keys belong with this version; calls wait as long.' : '.'}
          </p>
        </Confirm>
      )}
    </Card>
  );
}

function Limits({ limits }: { limits: Schemas['Limits'] }) {
  const rows: [string, string][] = [
    ['Fuel of an invocation', exact(limits.fuel)],
    ['Fuel of a transaction', exact(limits.transaction_fuel)],
    ['Memory of an instance', bytes(limits.memory)],
    ['Depth of calls', exact(limits.call_depth)],
    ['Calls of a transaction', exact(limits.calls)],
    ['Entities of a transaction', exact(limits.rw_set)],
    ['Bytes of a value', bytes(limits.payload)],
  ];
  return (
    <Card title="Limits">
      <table>
        <tbody>
          {rows.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="number">{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function Removal({ app, onClose }: { app: Schemas['AppView']; onClose: () => void }) {
  const [, navigate] = useLocation();
  const { name } = app;
  const change = useChange(remove, 'catalog', 'cluster');
  const counted = useEntityCounts(
    name,
    app.operators.map(operator => operator.name),
  );
  return (
    <Confirm
      title={`Delete ${line(name)}?`}
      action={isForcible(change.error) ? 'Delete it all the same' : 'Delete it and its state'}
      repeat={name}
      busy={change.isPending}
      error={change.error}
      onClose={onClose}
      onConfirm={() =>
        change.mutate({ app: name, force: isForcible(change.error) }, { onSuccess: () => navigate('/apps') })
      }
    >
      <p>This cannot be taken back. What is lost:</p>
      <table>
        <tbody>
          {app.operators.map((operator, at) => (
            <tr key={operator.name}>
              <th scope="row">
                <bdi>{line(operator.name)}</bdi>
              </th>
              <td className="quiet">{plural(operator.functions.length, 'function')}</td>
              <td className="number">
                <Counted of={counted[at]} />
              </td>
            </tr>
          ))}
          <tr>
            <th scope="row">all {plural(app.deployments.length, 'version')}</th>
            <td />
            <td />
          </tr>
        </tbody>
      </table>
      {app.imported_by.length > 0 && (
        <Notice kind="warn" title={`${app.imported_by.map(line).join(', ')} will find nothing to call`}>
          Their calls of it abort from then on.
        </Notice>
      )}
      <p className="quiet">
        To keep a copy: <code>styx state export {line(name)}</code>, or “Export all” at each operator’s state.
      </p>
    </Confirm>
  );
}

/** How many entities an operator has, as far as they were counted. */
function Counted({ of }: { of: ReturnType<typeof useEntityCounts>[number] | undefined }) {
  if (!of || of.isPending) return <span className="quiet">counting</span>;
  if (!of.data) return <span className="quiet">not counted</span>;
  const { entities, more } = of.data;
  return (
    <b>
      {plural(entities, 'entity', 'entities')}
      {more && ' or more'}
    </b>
  );
}
