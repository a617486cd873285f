// What is deployed.
import { Link } from 'wouter';
import { useApps } from '../api/hooks';
import { Card, Page, Pending } from '../components/basics';
import { FirstApp } from '../components/first-app';
import { Upload } from '../components/upload';
import { ago, line, plural } from '../lib/format';

/** Functions of an operator that a card names. */
const CHIPS = 24;

export function Apps() {
  const apps = useApps();
  return (
    <Page
      title="Apps"
      lead={
        apps.data &&
        (apps.data.apps.length ? `${plural(apps.data.apps.length, 'app')} deployed` : 'Nothing is deployed yet')
      }
    >
      <Pending of={apps} />
      {apps.data?.apps.length === 0 && <FirstApp />}
      <div className="cards">
        {apps.data?.apps.map(app => (
          <Card
            key={app.name}
            title={
              <Link href={`/apps/${encodeURIComponent(app.name)}`}>
                <bdi>{line(app.name)}</bdi>
              </Link>
            }
            note={plural(app.deployments, 'version')}
          >
            <dl className="operators">
              {app.operators.map(operator => (
                <div key={operator.name}>
                  <dt>{line(operator.name)}</dt>
                  <dd>
                    {operator.functions.slice(0, CHIPS).map(name => (
                      <Link
                        key={name}
                        className="chip"
                        href={`/apps/${[app.name, operator.name, name].map(encodeURIComponent).join('/')}`}
                      >
                        {line(name)}
                      </Link>
                    ))}
                    {operator.functions.length > CHIPS && (
                      <span className="quiet">and {plural(operator.functions.length - CHIPS, 'more', 'more')}</span>
                    )}
                  </dd>
                </div>
              ))}
            </dl>
            <p className="quiet">
              <code>{app.active}</code>
              <br />
              deployed {ago(app.created)}
            </p>
          </Card>
        ))}
      </div>
      {apps.data && apps.data.apps.length > 0 && (
        <Card title="Deploy another one">
          <Upload />
        </Card>
      )}
    </Page>
  );
}
