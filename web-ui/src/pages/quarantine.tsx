// What has ended the server and is not executed any more, until somebody lets it.
import { useState } from 'react';
import type { Schemas } from '../api/client';
import { release, useChange, useMay, useQuarantine } from '../api/hooks';
import { Age, Button, Card, Confirm, Page, Pending, Table, Tag } from '../components/basics';
import { line } from '../lib/format';

export function Quarantine() {
  const quarantine = useQuarantine();
  const [chosen, setChosen] = useState<Schemas['QuarantinedView'] | null>(null);
  const change = useChange(release, 'catalog');
  const { why } = useMay('operate');
  const all = quarantine.data?.quarantined ?? [];
  return (
    <Page
      title="Quarantine"
      lead="Requests and apps that have ended the server again and again are set aside instead of executed"
    >
      <Pending of={quarantine} />
      {quarantine.data && (
        <Card>
          {all.length === 0 ? (
            <p className="empty">Nothing is set aside.</p>
          ) : (
            <Table label="Set aside" columns={['What', 'App', 'Function', 'Why', 'Since', '']}>
              {all.map(one => (
                <tr key={one.id}>
                  <td>
                    <Tag kind="warn">{one.kind}</Tag> <code>{line(one.id)}</code>
                  </td>
                  <td>{line(one.app ?? '')}</td>
                  <td>{line(one.function ?? '')}</td>
                  <td>{line(one.reason)}</td>
                  <Age of={one.since} />
                  <td className="number">
                    <Button denied={why} onClick={() => setChosen(one)}>
                      Release
                    </Button>
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </Card>
      )}
      {chosen && (
        <Confirm
          title={`Execute this ${chosen.kind} again?`}
          action="Release"
          busy={change.isPending}
          error={change.error}
          onClose={() => {
            change.reset();
            setChosen(null);
          }}
          onConfirm={() => change.mutate(chosen.id, { onSuccess: () => setChosen(null) })}
        >
          <p>
            <code>{line(chosen.id)}</code>: {line(chosen.reason)}
          </p>
          <p>If nothing has changed since, it will end the server again.</p>
        </Confirm>
      )}
    </Page>
  );
}
