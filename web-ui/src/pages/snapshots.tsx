// Snapshots, and the log that they shorten.
import { useState } from 'react';
import type { Schemas } from '../api/client';
import { takeSnapshot, useChange, useLive, useMay, useSnapshots, verifySnapshot } from '../api/hooks';
import {
  Age,
  Button,
  Card,
  Command,
  ErrorNotice,
  Figure,
  Notice,
  Page,
  Pending,
  Table,
  Tag,
  number,
} from '../components/basics';
import { ago, bytes, count, line, plural, seconds } from '../lib/format';
import { quoted } from '../lib/snippets';

export function Snapshots() {
  const snapshots = useSnapshots();
  const live = useLive();
  const change = useChange(takeSnapshot, 'snapshots');
  const verification = useChange(verifySnapshot);
  const { why } = useMay('operate');
  const [chosen, setChosen] = useState('');
  const last = snapshots.data?.last;
  const newest = snapshots.data?.snapshots.findLast(snapshot => 'epoch' in snapshot);
  const epoch = live.last?.last?.epoch;
  const since = newest && 'epoch' in newest && epoch !== undefined ? Math.max(0, epoch - newest.epoch) : undefined;
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
        <ErrorNotice error={verification.error} />
        {verification.data && <Verified of={verification.data} />}
        {change.data && (
          <Notice kind="good" title={`Snapshot ${change.data.sequence} of epoch ${change.data.epoch} exists`} />
        )}
      </div>
      {snapshots.data && (
        <div className="figures seven">
          <Figure name="Snapshots" value={count(snapshots.data.snapshots.length)} />
          <Figure name="Newest, of epoch" value={newest && 'epoch' in newest ? count(newest.epoch) : '–'} />
          <Figure
            name="Taken"
            value={newest && 'epoch' in newest ? <NewestAge created={newest.created} since={since} /> : '–'}
          />
          <Figure name="Epochs since" value={since === undefined ? '–' : count(since)} />
          <Figure
            name="The last took"
            value={last ? seconds(last.duration_us / 1e6) : '–'}
            {...(last && { unit: bytes(last.written_bytes) })}
          />
          <Figure name="Records in the log" value={count(snapshots.data.log.next - snapshots.data.log.first)} />
          <Figure name="Trimmed up to" value={count(snapshots.data.log.first)} />
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
                'Number',
                'Taken',
                number('Epoch'),
                number('Bytes'),
                number('Parts'),
                number('Of them deltas'),
                number('Log from'),
                'State hash',
                '',
              ]}
            >
              {snapshots.data.snapshots.toReversed().map(snapshot =>
                'problem' in snapshot ? (
                  <tr key={snapshot.sequence}>
                    <td>{snapshot.sequence}</td>
                    <td colSpan={8}>
                      <Tag kind="bad">cannot be read</Tag> {line(snapshot.problem ?? '')}
                    </td>
                  </tr>
                ) : (
                  <tr key={snapshot.sequence}>
                    <td>{snapshot.sequence}</td>
                    <Age of={snapshot.created} />
                    <td className="number">{count(snapshot.epoch)}</td>
                    <td className="number">{bytes(snapshot.bytes)}</td>
                    <td className="number">{snapshot.parts}</td>
                    <td className="number">{snapshot.deltas}</td>
                    <td className="number">{count(snapshot.log_position)}</td>
                    <td>
                      <code title={snapshot.state_hash}>{snapshot.state_hash.slice(0, 12)}</code>
                    </td>
                    <td>
                      <Button
                        denied={why}
                        busy={verification.isPending && verification.variables === snapshot.sequence}
                        disabled={verification.isPending}
                        aria-label={`Verify snapshot ${snapshot.sequence}`}
                        onClick={() => verification.mutate(snapshot.sequence)}
                      >
                        Verify
                      </Button>
                    </td>
                  </tr>
                ),
              )}
            </Table>
          )}
        </Card>
      )}
      {snapshots.data?.place && (
        <div className="columns">
          <Card title="Verify, and take along">
            <p className="quiet">Every byte of the newest is read and checked, also while no server runs.</p>
            <Command>{`styx snapshots verify ${at(snapshots.data.place)}`}</Command>
            <p className="quiet">To a backup; elsewhere another server begins with it.</p>
            <Command>{`styx snapshots export /mnt/backup ${at(snapshots.data.place)}`}</Command>
            <Command>{'styx snapshots import /mnt/backup --data-dir new'}</Command>
          </Card>
          <Card title="Go back">
            <p className="quiet">
              With the server stopped, and its data directory. What came after the snapshot is set aside, not deleted.
            </p>
            <label className="field">
              <span>To which snapshot</span>
              <select value={chosen} onChange={event => setChosen(event.target.value)}>
                <option value="">the newest</option>
                {snapshots.data.snapshots.toReversed().map(
                  snapshot =>
                    'epoch' in snapshot && (
                      <option key={snapshot.sequence} value={snapshot.sequence}>
                        {snapshot.sequence}, of epoch {count(snapshot.epoch)}, {ago(snapshot.created)}
                      </option>
                    ),
                )}
              </select>
            </label>
            <Command>{`styx snapshots verify ${chosen ? `${chosen} ` : ''}${at(snapshots.data.place)}`}</Command>
            <Command>{`styx snapshots restore ${chosen ? `${chosen} ` : ''}--data-dir .styx ${at(snapshots.data.place)}`}</Command>
          </Card>
        </div>
      )}
    </Page>
  );
}

/** What came of reading every byte of one. */
function Verified({ of }: { of: Schemas['SnapshotVerified'] }) {
  return of.damage.length === 0 ? (
    <Notice
      kind="good"
      title={`Snapshot ${of.sequence} is whole: ${plural(of.entries, 'entry', 'entries')}, ${bytes(of.bytes)} were read`}
    />
  ) : (
    <Notice kind="bad" title={`Snapshot ${of.sequence} is damaged`}>
      A restart takes the one before it and more of the log.
      <ul>
        {of.damage.map(what => (
          <li key={what}>{line(what)}</li>
        ))}
      </ul>
    </Notice>
  );
}

/** Where the store is, as an option. */
const at = (place: string) => `--store ${quoted(place)}`;

/** An age that is more than snapshots should have while there is something to be kept: they are taken every few seconds. */
const OLD_SECONDS = 120;

function NewestAge({ created, since }: { created: string; since: number | undefined }) {
  const isOld = since !== undefined && since > 0 && Date.now() - Date.parse(created) > OLD_SECONDS * 1000;
  return isOld ? (
    <span className="old" title="Epochs have ended since: see the server’s log for why none was taken">
      {ago(created)}
    </span>
  ) : (
    ago(created)
  );
}
