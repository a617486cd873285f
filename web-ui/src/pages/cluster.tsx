// Who is there, and who has which partition.
import { Link } from 'wouter';
import { useCluster, usePartitions, useWorkers } from '../api/hooks';
import { Card, Command, Figure, Notice, Page, Pending, Table, Tag, number } from '../components/basics';
import { colorOf, PartitionMap } from '../components/partition-map';
import { bytes, count, plural } from '../lib/format';

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
