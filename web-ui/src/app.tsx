// The frame of all pages, and which page an address is.
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { onRefusal } from './api/client';
import { connect } from './api/events';
import { useCluster, useLive } from './api/hooks';
import { Page } from './components/basics';
import { Boundary } from './components/boundary';
import { Connection } from './components/connection';
import { SignIn } from './components/sign-in';
import { setTheme, theme, type Theme } from './components/theme';
import { Access } from './pages/access';
import { App as AppPage } from './pages/app';
import { Apps } from './pages/apps';
import { Cluster } from './pages/cluster';
import { Logs } from './pages/logs';
import { Migrations } from './pages/migrations';
import { Overview } from './pages/overview';
import { Quarantine } from './pages/quarantine';
import { Request } from './pages/request';
import { Requests } from './pages/requests';
import { Snapshots } from './pages/snapshots';
import { Entity, Operator, State } from './pages/state';

const PAGES: [string, string][] = [
  ['/', 'Overview'],
  ['/apps', 'Apps'],
  ['/state', 'State'],
  ['/requests', 'Requests'],
  ['/logs', 'Logs'],
  ['/cluster', 'Cluster'],
  ['/migrations', 'Migrations'],
  ['/snapshots', 'Snapshots'],
  ['/quarantine', 'Quarantine'],
  ['/access', 'Access'],
];

const PLAIN: Record<string, () => ReactNode> = {
  '': Overview,
  apps: Apps,
  state: State,
  requests: Requests,
  logs: Logs,
  cluster: Cluster,
  migrations: Migrations,
  snapshots: Snapshots,
  quarantine: Quarantine,
  access: Access,
};

export function App() {
  const [refused, setRefused] = useState(false);
  const client = useQueryClient();
  useEffect(() => onRefusal(() => setRefused(true)), []);
  useEffect(connect, []);
  if (refused) {
    return (
      <SignIn
        onDone={() => {
          setRefused(false);
          client.clear();
          connect();
        }}
      />
    );
  }
  return <Frame />;
}

function Frame() {
  const [location] = useLocation();
  const main = useRef<HTMLElement>(null);
  const live = useLive();
  const first = useRef(true);
  useRereading();
  // On a narrow screen the names of the pages scroll.
  useEffect(() => {
    const show = () =>
      document.querySelector('.side nav .here')?.scrollIntoView({ block: 'nearest', inline: 'center' });
    show();
    window.addEventListener('resize', show);
    return () => window.removeEventListener('resize', show);
  }, [location]);
  // Whoever uses a keyboard or hears the page begins at its top.
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    window.scrollTo(0, 0);
    main.current?.querySelector('h1')?.focus({ preventScroll: true });
  }, [location]);
  return (
    <div className="frame">
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <aside className="side">
        <Link href="/" className="brand">
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <rect width="32" height="32" rx="7" />
            <path d="M6 12c4-4 7 4 10 0s6 4 10 0M6 20c4-4 7 4 10 0s6 4 10 0" />
          </svg>
          Styx
        </Link>
        <nav aria-label="Pages">
          {PAGES.map(([href, name]) => {
            const here = href === '/' ? location === '/' : location === href || location.startsWith(`${href}/`);
            return (
              <Link key={href} href={href} className={here ? 'here' : ''} aria-current={here ? 'page' : undefined}>
                {name}
                {href === '/quarantine' && live.status && live.status.quarantined > 0 && (
                  <span className="badge">{live.status.quarantined}</span>
                )}
              </Link>
            );
          })}
        </nav>
        <Foot />
      </aside>
      <main id="content" ref={main}>
        <Connection />
        <Boundary of={location}>{page(names(location))}</Boundary>
      </main>
    </div>
  );
}

/** The names of which an address is made. A key may hold anything, slashes too, so what the browser has is read here. */
function names(_location: string): string[] {
  const parts = window.location.pathname.split('/').slice(1);
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return parts;
  }
}

function page([kind = '', ...rest]: string[]): ReactNode {
  const [first, second, third] = rest;
  if (kind === 'apps' && rest.length === 1 && first) return <AppPage key={first} name={first} />;
  if (kind === 'apps' && rest.length === 3 && first)
    return <AppPage key={first} name={first} operator={second} fn={third} />;
  if (kind === 'state' && rest.length === 2 && first && second) return <Operator app={first} operator={second} />;
  if (kind === 'state' && rest.length === 3 && first && second && third) {
    return <Entity key={third} app={first} operator={second} name={third} />;
  }
  if (kind === 'requests' && rest.length === 1 && first) return <Request key={first} id={first} />;
  const Plain = rest.length === 0 ? (Object.hasOwn(PLAIN, kind) ? PLAIN[kind] : undefined) : undefined;
  if (Plain) return <Plain />;
  return (
    <Page title="There is no such page" lead={<Link href="/">To the overview</Link>}>
      {null}
    </Page>
  );
}

/** Reads again what has changed, when the server says that it has. */
function useRereading(): void {
  const client = useQueryClient();
  const { status, state } = useLive();
  useEffect(() => {
    if (status) void client.invalidateQueries({ queryKey: ['catalog'] });
  }, [client, status?.catalog, status?.quarantined]);
  useEffect(() => {
    if (status) void client.invalidateQueries({ queryKey: ['snapshots'] });
  }, [client, status?.snapshots]);
  useEffect(() => {
    if (status) void client.invalidateQueries({ queryKey: ['cluster'] });
  }, [client, status?.generation, status?.live, status?.workers]);
  useEffect(() => {
    if (state === 'open') void client.invalidateQueries();
  }, [client, state]);
}

function Foot() {
  const cluster = useCluster();
  const { state } = useLive();
  const [chosen, setChosen] = useState(theme);
  return (
    <div className="foot">
      <label>
        <span className="unseen">Colours</span>
        <select
          value={chosen}
          onChange={event => {
            setTheme(event.target.value as Theme);
            setChosen(event.target.value as Theme);
          }}
        >
          <option value="system">As the system</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      <p>
        <span className={`dot ${state}`} aria-hidden="true" />
        <span>
          {
            {
              open: 'Live',
              connecting: 'Connecting',
              lost: 'No connection',
              refused: 'A token is needed',
              denied: 'Not live',
            }[state]
          }
        </span>
        {cluster.data && <span className="quiet"> · {cluster.data.version}</span>}
      </p>
    </div>
  );
}
