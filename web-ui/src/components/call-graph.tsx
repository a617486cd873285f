// The call graph of an execution as a picture, and as nested lists for whoever does not see it.
import type { Schemas } from '../api/client';
import { count, line, seconds, shorten } from '../lib/format';
import { layout, type Node } from '../lib/graph';

type Call = Schemas['TraceCall'];

/** Boxes, and the room around them. */
const [WIDTH, HEIGHT, GAP_X, GAP_Y] = [210, 56, 70, 14];
/** More calls than this nobody can tell apart. */
const SHOWN_MAX = 80;

interface Props {
  calls: Call[];
  name: string;
  /** In which language an operator is written, as far as that is known. */
  language: (operator: string) => string;
}

export function CallGraph({ calls, name, language }: Props) {
  const { roots, nodes, columns, rows, left } = layout(calls, SHOWN_MAX);
  const workers = new Set(calls.map(({ worker }) => worker));
  const x = (node: Node<Call>) => 2 + node.x * (WIDTH + GAP_X);
  const y = (node: Node<Call>) => 2 + node.y * (HEIGHT + GAP_Y);
  const size = { width: columns * (WIDTH + GAP_X) - GAP_X + 4, height: rows * (HEIGHT + GAP_Y) - GAP_Y + 4 };
  return (
    <figure className="graph">
      <div className="scroll" tabIndex={0} role="region" aria-label={name}>
        <svg {...size} viewBox={`0 0 ${size.width} ${size.height}`} aria-hidden="true">
          {nodes.flatMap(node =>
            node.children.map(child => {
              const [fromX, fromY] = [x(node) + WIDTH, y(node) + HEIGHT / 2];
              const [toX, toY] = [x(child), y(child) + HEIGHT / 2];
              const bend = GAP_X / 2;
              return (
                <path
                  key={child.call.id}
                  className={child.call.asynchronous ? 'edge async' : 'edge'}
                  d={`M${fromX} ${fromY}C${fromX + bend} ${fromY} ${toX - bend} ${toY} ${toX - 6} ${toY}m-6 -4l6 4l-6 4`}
                />
              );
            }),
          )}
          {nodes.map(node => (
            <g key={node.call.id} className={`w${((node.call.worker - 1) % 8) + 1}`}>
              <rect x={x(node)} y={y(node)} width={WIDTH} height={HEIGHT} rx={8} className="call" />
              <rect x={x(node)} y={y(node)} width={5} height={HEIGHT} rx={2.5} className="worker" />
              <text x={x(node) + 14} y={y(node) + 19} className="name">
                {line(shorten(`${node.call.operator}.${node.call.function}`, 26))}
              </text>
              <text x={x(node) + 14} y={y(node) + 34} className="key">
                {line(shorten(node.call.key, 18))}
              </text>
              <text x={x(node) + WIDTH - 10} y={y(node) + 34} className="cost" textAnchor="end">
                {line(shorten(language(node.call.operator), 12))}
              </text>
              <text x={x(node) + 14} y={y(node) + 48} className="cost">
                {cost(node.call)}
              </text>
              <title>{spoken(node.call, language)}</title>
            </g>
          ))}
        </svg>
      </div>
      <figcaption>
        <span className="legend">
          {[...workers]
            .sort((a, b) => a - b)
            .map(worker => (
              <span key={worker} className={`w${((worker - 1) % 8) + 1}`}>
                <span className="swatch" aria-hidden="true" /> Worker {worker}
              </span>
            ))}
          {calls.some(({ asynchronous }) => asynchronous) && <span>┄ asynchronous</span>}
        </span>
        {left > 0 && <span>{count(left)} more calls are not drawn</span>}
        <details>
          <summary>As a list</summary>
          <Tree nodes={roots} language={language} />
        </details>
      </figcaption>
    </figure>
  );
}

function cost({ begun_us, ended_us, fuel, worker }: Call): string {
  const took = begun_us != null && ended_us != null ? `${seconds((ended_us - begun_us) / 1e6)} · ` : '';
  return `${took}${fuel != null ? `fuel ${count(fuel)} · ` : ''}worker ${worker}`;
}

function spoken(call: Call, language: Props['language']): string {
  const written = language(call.operator);
  const how = call.asynchronous ? 'asynchronously ' : '';
  return `${how}${line(`${call.operator}.${call.function}`)} for ${line(call.key)}, ${written ? `${line(written)}, ` : ''}${cost(call)}`;
}

function Tree({ nodes, language }: { nodes: Node<Call>[]; language: Props['language'] }) {
  return (
    <ul className="tree">
      {nodes.map(node => (
        <li key={node.call.id}>
          <bdi>{spoken(node.call, language)}</bdi>
          {node.children.length > 0 && <Tree nodes={node.children} language={language} />}
        </li>
      ))}
    </ul>
  );
}
