// What the cluster does, in ten seconds.
import { Link } from 'wouter';
import type { Schemas } from '../api/client';
import { SECONDS, type Live, type News, type Sample } from '../api/events';
import {
  useApps,
  useAttention,
  useCluster,
  useIdentity,
  useLive,
  useRequests,
  useSnapshots,
  useTraffic,
} from '../api/hooks';
import { EVERY_SECONDS, useLatencyHistory, type Window } from '../api/latency';
import { Age, Card, Figure, Notice, Page, Pending, Tag } from '../components/basics';
import { Chart } from '../components/chart';
import { FirstApp } from '../components/first-app';
import { bytes, clock, count, line, plural, rate, seconds } from '../lib/format';

export function Overview() {
  const live = useLive();
  const apps = useApps();
  const cluster = useCluster();
  const history = useLatencyHistory(WINDOWS);
  const now = recent(live.samples);
  return (
    <Page
      title="Overview"
      lead={
        cluster.data &&
        apps.data && <Sentence live={live} cluster={cluster.data} apps={apps.data} now={now} history={history} />
      }
    >
      <Pending of={cluster} />
      <Attention cluster={cluster.data} live={live} />
      {apps.data?.apps.length === 0 && <FirstApp />}
      <Tiles live={live} cluster={cluster.data} now={now} history={history} />
      <div className="columns">
        <Card title="Transactions a second" note="the last two minutes">
          <Throughput samples={live.samples} />
        </Card>
        <Card title="Latency" note="from the arrival of a call to its reply">
          <LatencyChart history={history} />
        </Card>
      </div>
      <div className="columns">
        <Card title="Epochs" note={<EpochNote live={live} />}>
          <Epochs epochs={live.epochs} />
        </Card>
        <Card title="Errors by code" note="since the servers began">
          <Errors />
        </Card>
      </div>
      <Card title="What happened" note="since this page was opened">
        <Happened news={live.news} />
      </Card>
      {apps.data && apps.data.apps.length > 0 && (
        <Card title="Apps" note={<Link href="/apps">all of them</Link>}>
          <table>
            <thead>
              <tr>
                <th>App</th>
                <th>Operators</th>
                <th className="number">Versions</th>
                <th>Deployed</th>
              </tr>
            </thead>
            <tbody>
              {apps.data.apps.slice(0, 8).map(app => (
                <tr key={app.name}>
                  <td>
                    <Link href={`/apps/${encodeURIComponent(app.name)}`}>
                      <bdi>{line(app.name)}</bdi>
                    </Link>
                  </td>
                  <td className="quiet">{app.operators.map(operator => line(operator.name)).join(', ')}</td>
                  <td className="number">{app.deployments}</td>
                  <Age of={app.created} quiet />
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
      )}
    </Page>
  );
}

interface Rates {
  committed: number;
  aborted: number;
  queries: number;
  epochs: number;
}

/** Per second, over the last five whole ones. */
function recent(samples: Sample[]): Rates {
  const whole = samples.slice(-6, -1);
  const mean = (of: (sample: Sample) => number) =>
    whole.reduce((sum, sample) => sum + of(sample), 0) / Math.max(1, whole.length);
  return {
    committed: mean(sample => sample.committed + sample.fellBack),
    aborted: mean(sample => sample.aborted),
    queries: mean(sample => sample.queries),
    epochs: mean(sample => sample.epochs),
  };
}

interface Figures {
  cluster: Schemas['ClusterView'];
  apps: Schemas['AppList'];
  live: Live;
  now: Rates;
  history: Window[];
}

function Sentence({ cluster, apps, live, now, history }: Figures) {
  const where = cluster.mode === 'single-process' ? 'in one process' : `on ${plural(cluster.workers, 'worker')}`;
  const serves = live.status?.live ?? cluster.live;
  const latest = history.at(-1);
  if (!serves) return <>It does not serve: workers are missing, or it recovers.</>;
  return (
    <>
      Serves {plural(apps.apps.length, 'app')} {where}
      {cluster.entities !== undefined && <> with {plural(cluster.entities ?? 0, 'entity', 'entities')}</>}.{' '}
      {now.committed + now.queries > 0.05 ? (
        <>
          {rate(now.committed + now.queries)} requests a second commit
          {latest?.p50 != null && <>, half of them within {seconds(latest.p50)}</>}
          {now.aborted > 0.05 ? <>; {rate(now.aborted)} a second are refused by their functions</> : null}.
        </>
      ) : (
        <>Nobody calls it at this moment.</>
      )}
    </>
  );
}

/** Where to look. */
const PLACES: Record<Schemas['AttentionKind'], readonly [string, string]> = {
  'worker-lost': ['/cluster', 'Who is there'],
  'gateway-lost': ['/cluster', 'Who is there'],
  'standby-lost': ['/cluster', 'Who is there'],
  'disk-nearly-full': ['/cluster', 'All disks'],
  'snapshot-old': ['/snapshots', 'Which there are'],
  'hot-partition': ['/cluster', 'All partitions'],
};

function Attention({ cluster, live }: { cluster: Schemas['ClusterView'] | undefined; live: Live }) {
  const snapshots = useSnapshots();
  const identity = useIdentity();
  const attention = useAttention();
  const { status } = live;
  const wrong = snapshots.data?.snapshots.filter(snapshot => 'problem' in snapshot) ?? [];
  return (
    <div className="notices">
      {cluster && status && !status.live && (
        <Notice kind="bad" title="It does not serve">
          Workers are missing, or it recovers. <Link href="/cluster">Who is there</Link>
        </Notice>
      )}
      {status?.disk_full && (
        <Notice kind="bad" title="The disk of the log is nearly full">
          Nothing that may write is taken until there is room.
        </Notice>
      )}
      {status?.state_full && (
        <Notice kind="bad" title="A worker has as much state as it may">
          Nothing that may write is taken: delete what is not needed, add workers, or raise --state-memory.
        </Notice>
      )}
      {status && status.full_apps.length > 0 && (
        <Notice kind="warn" title={`As much state as they may have: ${status.full_apps.join(', ')}`}>
          Nothing of these apps that may write is taken until they have less, or --app-state is raised.
        </Notice>
      )}
      {status?.log_stalled && (
        <Notice kind="bad" title="The log waits for its Kafka brokers">
          Nothing is taken meanwhile.
        </Notice>
      )}
      {status && status.quarantined > 0 && (
        <Notice kind="warn" title={`${plural(status.quarantined, 'request or app', 'requests and apps')} set aside`}>
          They have ended the server and are not executed. <Link href="/quarantine">Look at them</Link>
        </Notice>
      )}
      {attention.data?.attention.map(one => (
        <Notice key={one.kind + one.title} kind={one.urgent ? 'bad' : 'warn'} title={line(one.title)}>
          {line(one.detail)} {line(one.action)}{' '}
          {PLACES[one.kind] && <Link href={PLACES[one.kind][0]}>{PLACES[one.kind][1]}</Link>}
        </Notice>
      ))}
      {wrong.length > 0 && (
        <Notice kind="warn" title={`${plural(wrong.length, 'snapshot')} cannot be read`}>
          <Link href="/snapshots">Which, and why</Link>
        </Notice>
      )}
      {snapshots.data && snapshots.data.place === null && (
        <Notice kind="warn" title="No snapshots are taken">
          The log grows, and a recovery reads all of it: give --store.
        </Notice>
      )}
      {identity.data &&
        !identity.data.known &&
        location.hostname !== 'localhost' &&
        !location.hostname.startsWith('127.') && (
          <Notice kind="warn" title="Whoever reaches this address may do everything">
            Start the server with --admin-token-file.
          </Notice>
        )}
    </div>
  );
}

function Tiles({
  live,
  cluster,
  now,
  history,
}: {
  live: Live;
  cluster: Schemas['ClusterView'] | undefined;
  now: Rates;
  history: Window[];
}) {
  const requests = useRequests();
  const latest = history.at(-1);
  return (
    <div className="figures eight">
      <Figure name="Committed" value={rate(now.committed)} unit="/s" />
      <Figure name="Reads" value={rate(now.queries)} unit="/s" />
      <Figure name="Aborted" value={rate(now.aborted)} unit="/s" />
      <Figure name="Latency p50" value={latest?.p50 == null ? '–' : seconds(latest.p50)} />
      <Figure name="Latency p99" value={latest?.p99 == null ? '–' : seconds(latest.p99)} />
      <Figure name="Epochs" value={rate(now.epochs)} unit="/s" />
      <Figure name="Waiting" value={requests.data ? count(requests.data.waiting) : '–'} />
      <Figure
        name={live.last ? `State, ${plural(cluster?.entities ?? live.last.entities, 'entity', 'entities')}` : 'State'}
        value={live.last ? bytes(cluster?.bytes ?? live.last.state_bytes) : '–'}
      />
    </div>
  );
}

function Throughput({ samples }: { samples: Sample[] }) {
  // The second under way is not told yet.
  const whole = samples.slice(0, -1).slice(-SECONDS);
  const labels = whole.map((_, at) => secondsAgo(whole.length - at - 1));
  return (
    <Chart
      title="Transactions a second"
      stacked
      labels={labels}
      format={rate}
      series={[
        { name: 'committed at once', color: 'c-committed', values: whole.map(sample => sample.committed) },
        { name: 'after a conflict', color: 'c-fallback', values: whole.map(sample => sample.fellBack) },
        { name: 'reads', color: 'c-queries', values: whole.map(sample => sample.queries) },
        { name: 'aborted', color: 'c-aborted', values: whole.map(sample => sample.aborted) },
      ]}
    />
  );
}

const secondsAgo = (n: number) => (n === 0 ? 'now' : `${n} s ago`);

const WINDOWS = SECONDS / EVERY_SECONDS;

function LatencyChart({ history }: { history: Window[] }) {
  if (history.every(window => window.count === 0)) return <p className="empty">No calls since this page was opened.</p>;
  const padded: (Window | null)[] = [...Array<null>(Math.max(0, WINDOWS - history.length)).fill(null), ...history];
  return (
    <Chart
      title="Latency"
      labels={padded.map((_, at) => secondsAgo((padded.length - at - 1) * EVERY_SECONDS))}
      format={seconds}
      series={[
        { name: 'p50', color: 'c-committed', values: padded.map(window => window?.p50 ?? null) },
        { name: 'p99', color: 'c-fallback', values: padded.map(window => window?.p99 ?? null) },
      ]}
    />
  );
}

function Happened({ news }: { news: News[] }) {
  if (news.length === 0) return <p className="empty">Nothing but calls.</p>;
  return (
    <ul className="happened">
      {news.slice(0, 10).map((one, at) => (
        <li key={`${one.data.at}-${at}`}>
          <time className="quiet">{clock(one.data.at / 1000)}</time> <Told news={one} />
        </li>
      ))}
    </ul>
  );
}

function Told({ news }: { news: News }) {
  switch (news.event) {
    case 'member':
      return (
        <Link href="/cluster">
          Worker {news.data.address} {news.data.change}
        </Link>
      );
    case 'deployment':
      return news.data.deployment === null || news.data.deployment === undefined ? (
        <>
          App <bdi>{line(news.data.app)}</bdi> was removed
        </>
      ) : (
        <Link href={`/apps/${encodeURIComponent(news.data.app)}`}>
          App <bdi>{line(news.data.app)}</bdi>: version {news.data.deployment} {news.data.change}
        </Link>
      );
    case 'snapshot':
      return (
        <Link href="/snapshots">
          Snapshot {news.data.snapshot.sequence} of epoch {count(news.data.snapshot.epoch)},{' '}
          {bytes(news.data.snapshot.bytes)}
        </Link>
      );
    case 'quarantine':
      return (
        <Link href="/quarantine">
          <bdi>{line(news.data.subject.id)}</bdi> {news.data.change === 'released' ? 'was released' : 'was set aside'}
        </Link>
      );
  }
}

function EpochNote({ live }: { live: Live }) {
  const last = live.epochs.at(-1);
  return last ? (
    <>
      the last was {count(last.epoch)}, in {seconds(last.duration_us / 1e6)}
    </>
  ) : null;
}

/** Each epoch a bar: what it committed, what of that after a conflict. */
function Epochs({ epochs }: { epochs: Schemas['EpochReport'][] }) {
  if (epochs.length === 0) return <p className="empty">No epoch has ended since this page was opened.</p>;
  const size = (epoch: Schemas['EpochReport']) => epoch.committed + epoch.fell_back + epoch.queries + epoch.aborted;
  const most = Math.max(1, ...epochs.map(size));
  const width = 720 / 60;
  const last = epochs.at(-1);
  return (
    <svg
      className="epochs"
      viewBox="0 0 720 120"
      role="img"
      aria-label={`The latest epochs told of; the last committed ${last ? last.committed + last.fell_back : 0} and took ${last?.duration_us} µs`}
    >
      {epochs.map((epoch, at) => {
        const x = 720 - (epochs.length - at) * width;
        let y = 120;
        return (
          <g key={`${epoch.epoch}-${at}`}>
            <title>{`epoch ${epoch.epoch}: ${epoch.committed} committed, ${epoch.fell_back} after a conflict, ${epoch.queries} reads, ${epoch.aborted} aborted, ${epoch.rescheduled} moved on; ${epoch.duration_us} µs`}</title>
            {(
              [
                ['c-committed', epoch.committed],
                ['c-fallback', epoch.fell_back],
                ['c-queries', epoch.queries],
                ['c-aborted', epoch.aborted],
              ] as const
            ).map(([color, n]) => {
              const height = (116 * n) / most;
              y -= height;
              return (
                n > 0 && (
                  <rect key={color} className={color} x={x + 1} y={y} width={width - 2} height={Math.max(1, height)} />
                )
              );
            })}
            {size(epoch) === 0 && <rect className="c-empty" x={x + 1} y={118} width={width - 2} height={2} />}
          </g>
        );
      })}
    </svg>
  );
}

function Errors() {
  const traffic = useTraffic();
  const errors = (traffic.data?.errors ?? []).toSorted((a, b) => b.count - a.count);
  if (errors.length === 0) return <p className="empty">None.</p>;
  const all = traffic.data?.outcomes.reduce((sum, outcome) => sum + outcome.count, 0) ?? 0;
  return (
    <table>
      <thead>
        <tr>
          <th>Code</th>
          <th className="number">Requests</th>
          <th className="number">Of all</th>
        </tr>
      </thead>
      <tbody>
        {errors.map(error => (
          <tr key={error.code}>
            <td>
              <Tag kind={error.code === 'ABORTED' ? 'plain' : 'warn'}>{error.code}</Tag>
            </td>
            <td className="number">{count(error.count)}</td>
            <td className="number">{all ? `${((100 * error.count) / all).toFixed(1)} %` : ''}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
