// Snapshots, and the log that they shorten.
import { takeSnapshot, useChange, useLive, useMay, useSnapshots } from '../api/hooks';
import { Button, Card, ErrorNotice, Figure, Notice, Page, Pending, Table, Tag, number } from '../components/basics';
import { ago, bytes, count, line, plural, seconds } from '../lib/format';

export function Snapshots() {
  const snapshots = useSnapshots();
  const live = useLive();
  const change = useChange(takeSnapshot, 'snapshots');
  const { why } = useMay('operate');
  const last = snapshots.data?.last;
  const newest = snapshots.data?.snapshots.findLast(snapshot => 'epoch' in snapshot);
  const epoch = live.last?.last?.epoch;
  return (
    <Page
      title="Snapshots"
      lead={
        snapshots.data &&
        (snapshots.data.place ? (
          <>
            In <code>{line(snapshots.data.place)}</code>
          </>
        ) : (
          'None are taken'
        ))
      }
      actions={
        <Button kind="primary" denied={why} busy={change.isPending} onClick={() => change.mutate(undefined)}>
          Take one now
        </Button>
      }
    >
      <Pending of={snapshots} />
      <div aria-live="polite">
        <ErrorNotice error={change.error} />
        {change.data && (
          <Notice kind="good" title={`Snapshot ${change.data.sequence} of epoch ${change.data.epoch} exists`} />
        )}
      </div>
      {snapshots.data && (
        <div className="figures seven">
          <Figure name="Snapshots" value={count(snapshots.data.snapshots.length)} />
          <Figure name="Newest, of epoch" value={newest && 'epoch' in newest ? count(newest.epoch) : '–'} />
          <Figure
            name="Epochs since, in the log"
            value={newest && 'epoch' in newest && epoch !== undefined ? count(Math.max(0, epoch - newest.epoch)) : '–'}
          />
          <Figure name="Records in the log" value={count(snapshots.data.log.next - snapshots.data.log.first)} />
          <Figure name="Trimmed up to" value={count(snapshots.data.log.first)} />
          <Figure name="The last took" value={last ? seconds(last.duration_us / 1e6) : '–'} />
          <Figure name="and wrote" value={last ? bytes(last.written_bytes) : '–'} />
        </div>
      )}
      {snapshots.data && (
        <Card
          title={plural(snapshots.data.snapshots.length, 'snapshot')}
          note="newest first; a recovery begins with the newest that is whole"
        >
          {snapshots.data.snapshots.length === 0 ? (
            <p className="empty">There is none yet.</p>
          ) : (
            <Table
              label="Snapshots"
              columns={[
                number('Number'),
                'Taken',
                number('Epoch'),
                number('Bytes'),
                number('Parts'),
                number('of them deltas'),
                number('Log from'),
                'State hash',
              ]}
            >
              {snapshots.data.snapshots.toReversed().map(snapshot =>
                'problem' in snapshot ? (
                  <tr key={snapshot.sequence}>
                    <td className="number">{snapshot.sequence}</td>
                    <td colSpan={7}>
                      <Tag kind="bad">cannot be read</Tag> {line(snapshot.problem ?? '')}
                    </td>
                  </tr>
                ) : (
                  <tr key={snapshot.sequence}>
                    <td className="number">{snapshot.sequence}</td>
                    <td title={snapshot.created}>{ago(snapshot.created)}</td>
                    <td className="number">{count(snapshot.epoch)}</td>
                    <td className="number">{bytes(snapshot.bytes)}</td>
                    <td className="number">{snapshot.parts}</td>
                    <td className="number">{snapshot.deltas}</td>
                    <td className="number">{count(snapshot.log_position)}</td>
                    <td>
                      <code title={snapshot.state_hash}>{snapshot.state_hash.slice(0, 12)}</code>
                    </td>
                  </tr>
                ),
              )}
            </Table>
          )}
        </Card>
      )}
    </Page>
  );
}
