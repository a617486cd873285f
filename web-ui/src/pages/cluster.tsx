// Who is there, and who has which partition.
import { Link } from 'wouter';
import type { Schemas } from '../api/client';
import { useCluster, useNodes, usePartitions, useWorkers } from '../api/hooks';
import { Age, Card, Command, Figure, Notice, Page, Pending, Table, Tag, number } from '../components/basics';
import { colorOf, PartitionMap } from '../components/partition-map';
import { ago, bytes, count, line, plural, seconds } from '../lib/format';

/** Every process: how it fares. */
function Processes() {
  const nodes = useNodes();
  const release = nodes.data?.nodes[0]?.version;
  return (
    <Card title="Processes" note="they report every few seconds">
      <Pending of={nodes} />
      {nodes.data && (
        <Table
          label="Processes"
          boxed
          columns={['Process', 'State', 'Last heard of', number('Memory'), 'Free on disk', 'Release', 'Since', 'Where']}
        >
          {nodes.data.nodes.map(node => (
            <tr key={node.node ?? node.role}>
              <td>
                <bdi>{line(node.name)}</bdi> <span className="quiet">{ROLES[node.role](node)}</span>
              </td>
              <td>
                <Tag kind={node.status === 'alive' ? 'good' : 'bad'}>{node.status}</Tag>
              </td>
              <td className="brief">{node.silent_ms == null ? 'answers here' : heard(node.silent_ms)}</td>
              <td className="number">{node.resident_bytes == null ? '–' : bytes(node.resident_bytes)}</td>
              <td className="brief">
                {node.disk ? `${bytes(node.disk.free)} of ${bytes(node.disk.total)}` : 'keeps nothing'}
              </td>
              <td>{node.version === release ? node.version : <Tag kind="warn">{line(node.version)}</Tag>}</td>
              <Age of={node.started} />
              <td>
                {node.ingress && <>calls at {line(node.ingress)}</>}
                {node.leads && <Leads leads={node.leads} />}
                {isStandby(node) && <>leads if need be, at {line(node.admin ?? '')}</>}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

/** Processes report several times a second: what is younger says nothing. */
const heard = (ms: number): string => (ms < 1000 ? 'just now' : `${seconds(ms / 1000)} ago`);

const isStandby = ({ role, leads }: Schemas['NodeView']): boolean => role === 'coordinator' && !leads;

const ROLES: Record<Schemas['NodeRole'], (node: Schemas['NodeView']) => string> = {
  single: () => 'everything',
  coordinator: node => (isStandby(node) ? 'coordinator, stands by' : 'coordinator'),
  worker: ({ worker }) => (worker == null ? 'worker, no member' : `worker ${worker}`),
  gateway: () => 'gateway',
};

function Leads({ leads }: { leads: Schemas['LeadsView'] }) {
  return (
    <>
      leads since {ago(leads.since)}
      {leads.why === 'only' && ': it is the only one'}
      {leads.why === 'elected' && ': nobody else led when it started'}
      {leads.why === 'took-over' && (
        <>
          : took over from <bdi>{line(leads.from ?? '')}</bdi>, which gave its lease back or did not renew it
        </>
      )}
    </>
  );
}

export function Cluster() {
  const cluster = useCluster();
  const workers = useWorkers();
  const partitions = usePartitions();
  const single = cluster.data?.mode === 'single-process';
  return (
    <Page
      title="Cluster"
      lead={
        cluster.data &&
        (single
          ? 'Everything in one process'
          : `${plural(cluster.data.workers, 'worker')}, generation ${cluster.data.generation}`)
      }
      actions={
        !single && (
          <Link className="button plain" href="/migrations">
            Move partitions
          </Link>
        )
      }
    >
      <Pending of={cluster} />
      {cluster.data && !cluster.data.live && (
        <Notice kind="bad" title="Not all partitions are served">
          Workers are missing, or it recovers. The coordinator waits for them.
        </Notice>
      )}
      {cluster.data && (
        <div className="figures six">
          <Figure name="Epoch" value={count(cluster.data.epoch)} />
          <Figure name="Entities" value={cluster.data.entities == null ? '–' : count(cluster.data.entities)} />
          <Figure name="Bytes" value={cluster.data.bytes == null ? '–' : bytes(cluster.data.bytes)} />
          <Figure name="Waiting" value={cluster.data.backlog == null ? '–' : count(cluster.data.backlog)} />
          <Figure name="Partitions" value={count(cluster.data.partitions)} />
          <Figure name="Release" value={cluster.data.version} />
        </div>
      )}
      {!cluster.error && (
        <>
          <Card title="Workers">
            <Pending of={workers} />
            {workers.data && (
              <Table
                label="Workers"
                boxed
                columns={[
                  'Worker',
                  'State',
                  number('Partitions'),
                  number('Entities'),
                  number('Bytes'),
                  number('Epoch'),
                  !single && 'Address',
                  !single && 'Node',
                ]}
              >
                {workers.data.workers.map(worker => (
                  <tr key={worker.worker}>
                    <td>
                      <span className={`swatch ${colorOf(worker.worker)}`} aria-hidden="true" /> {worker.worker}
                    </td>
                    <td>
                      <Tag kind={worker.status === 'alive' ? 'good' : 'bad'}>{worker.status}</Tag>
                    </td>
                    <td className="number">{count(worker.partitions)}</td>
                    <td className="number">{count(worker.entities)}</td>
                    <td className="number">{bytes(worker.bytes)}</td>
                    <td className="number">{count(worker.epoch)}</td>
                    {!single && <td>{worker.address}</td>}
                    {!single && (
                      <td>
                        <code>{worker.node}</code>
                      </td>
                    )}
                  </tr>
                ))}
              </Table>
            )}
          </Card>
          <Processes />
          <Card title="Partitions" note="each key belongs to one of them">
            <Pending of={partitions} />
            {partitions.data && <PartitionMap partitions={partitions.data.partitions} at={partitions.dataUpdatedAt} />}
          </Card>
        </>
      )}
      {cluster.data && (
        <Card title="Identity">
          <dl className="pairs">
            <dt>State hash chain after epoch {count(cluster.data.epoch)}</dt>
            <dd>
              <code>{cluster.data.chain}</code>
            </dd>
            <dt>Engine and its options</dt>
            <dd>
              <code>{cluster.data.engine}</code>
            </dd>
          </dl>
          {single && (
            <>
              <p className="quiet">For more than one machine:</p>
              <Command>{'styx server --role coordinator --workers 2'}</Command>
            </>
          )}
        </Card>
      )}
    </Page>
  );
}
