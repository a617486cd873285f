// What the autoscaler wants, and why.
import type { Schemas } from '../api/client';
import { useAutoscaler } from '../api/hooks';
import { plural, rate } from '../lib/format';
import { Age, Card, Command, Pending, Table, Tag, number } from './basics';

type Decision = Schemas['DecisionView'];

export function Autoscaler() {
  const autoscaler = useAutoscaler(true);
  const view = autoscaler.data;
  return (
    <Card title="Autoscaler" note={view && <Tag kind={view.mode === 'off' ? 'plain' : 'accent'}>{view.mode}</Tag>}>
      <Pending of={autoscaler} />
      {view?.mode === 'off' && (
        <>
          <p className="quiet">
            It looks at how busy workers are, and proposes how many there should be. To have it look:
          </p>
          <Command>{'styx server --role coordinator --autoscale 2..6'}</Command>
        </>
      )}
      {view && view.mode !== 'off' && (
        <>
          <p>
            {view.last ? (
              <>
                <b>{WISHES[view.last.wish] ?? view.last.wish}</b>: {view.last.reason}.
                {view.last.busy.length > 0 && (
                  <span className="quiet"> Workers are {view.last.busy.map(busy => `${busy} %`).join(', ')} busy.</span>
                )}
              </>
            ) : (
              <span className="quiet">It has not looked yet.</span>
            )}
            {view.min != null && view.max != null && (
              <span className="quiet">
                {' '}
                It wants {view.min} to {view.max} workers.
              </span>
            )}
          </p>
          {view.decisions.length > 0 && <Decisions decisions={view.decisions} performs={view.mode === 'performs'} />}
        </>
      )}
    </Card>
  );
}

const WISHES: Record<string, string> = {
  stay: 'As many as there are',
  out: 'More workers',
  in: 'Fewer workers',
  balance: 'As many, with other partitions',
};

/** Those that wanted a change. */
function Decisions({ decisions, performs }: { decisions: Decision[]; performs: boolean }) {
  return (
    <Table
      label="Decisions of the autoscaler"
      className="reasons"
      columns={['When', 'Workers', 'Why', number('Came'), number('Could be done'), performs && 'Command']}
    >
      {decisions.slice(0, 20).map(one => (
        <tr key={one.at}>
          <Age of={one.at} />
          <td>{one.wish === 'balance' ? 'balance' : `${one.workers} → ${one.wanted}`}</td>
          <td>{one.reason}</td>
          <td className="number">{rate(one.arrives)}/s</td>
          <td className="number">{rate(one.capacity)}/s</td>
          {performs && (
            <td>
              {one.command && (
                <>
                  <Tag kind={one.command.state === 'done' ? 'good' : 'bad'}>{one.command.state}</Tag>{' '}
                  {one.command.reason} {one.command.tries > 1 && plural(one.command.tries, 'try', 'tries')}
                </>
              )}
            </td>
          )}
        </tr>
      ))}
    </Table>
  );
}
