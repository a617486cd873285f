// Partitions as a map: a cell each, coloured by who has it, what it does or what it holds. It is drawn on a canvas, since
// there may be 65,536 of them; keys lead through it as a pointer does, and a table has the same.
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from 'react';
import type { Schemas } from '../api/client';
import { bytes, count, plural, rate } from '../lib/format';
import { cellAt, cellBy, columnAt, gridOf, strength, type Grid } from '../lib/grid';
import { useChoice, useParameter } from './address';
import { Button, Switch, Table, number } from './basics';
import { useShown } from './theme';

type Partition = Schemas['PartitionView'];

/** How long a cell is marked after its partition has moved. */
const MARKED_MS = 8000;
const COLORS = 8;

export const colorOf = (worker: number): string => `w${((worker - 1) % COLORS) + 1}`;

const COLOURINGS = ['owner', 'load', 'size'] as const;
type Colouring = (typeof COLOURINGS)[number];

/** Partitions whose owner was another a moment ago, and calls of each a second since then. */
function useChanges(partitions: Partition[], at: number): { moved: Set<number>; load: Map<number, number> | null } {
  const before = useRef<{ at: number; partitions: Map<number, Partition> } | null>(null);
  const moved = useRef(new Map<number, number>());
  const [changes, setChanges] = useState<{ moved: Set<number>; load: Map<number, number> | null }>({
    moved: new Set(),
    load: null,
  });
  useEffect(() => {
    const now = at;
    const last = before.current;
    if (last && now <= last.at) return;
    const load = new Map<number, number>();
    for (const [partition, at] of moved.current) if (now - at >= MARKED_MS) moved.current.delete(partition);
    for (const one of partitions) {
      const then = last?.partitions.get(one.partition);
      if (!then) continue;
      if (then.worker !== one.worker) moved.current.set(one.partition, now);
      // Whoever gets a partition begins to count anew.
      const calls = one.calls >= then.calls ? one.calls - then.calls : one.calls;
      load.set(one.partition, (calls * 1000) / (now - last!.at));
    }
    before.current = { at: now, partitions: new Map(partitions.map(one => [one.partition, one])) };
    setChanges({ moved: new Set(moved.current.keys()), load: last ? load : null });
  }, [partitions, at]);
  return changes;
}

interface MapProps {
  partitions: Partition[];
  /** When they were read, in milliseconds. */
  at: number;
}

export function PartitionMap({ partitions, at }: MapProps) {
  const [colouring, setColouring] = useChoice<Colouring>('colour', COLOURINGS, 'owner');
  const [shown, setShown] = useState<number | null>(null);
  const [alone, setAlone] = useParameter('alone');
  const only = partitions.some(({ worker, moves_to: to }) => alone === String(worker) || alone === String(to))
    ? Number(alone)
    : null;
  const { moved, load } = useChanges(partitions, at);
  const owners = useMemo(() => countByOwner(partitions), [partitions]);
  const moving = useMemo(() => partitions.filter(({ moves_to }) => moves_to != null).length, [partitions]);
  const value = (one: Partition) =>
    colouring === 'load' ? (load?.get(one.partition) ?? 0) : colouring === 'size' ? one.bytes : one.entities;
  const most = partitions.reduce((most, one) => Math.max(most, value(one)), 0);
  const current = shown === null ? undefined : partitions[shown];
  const drawing = useMemo(
    () =>
      partitions.map((one): Cell => ({
        worker: one.worker,
        movesTo: one.moves_to ?? null,
        strength: strength(value(one), most),
        moved: moved.has(one.partition),
        faint: only !== null && one.worker !== only && one.moves_to !== only,
      })),
    [partitions, colouring, moved, load, only],
  );
  const summary = [...owners]
    .filter(([, n]) => n > 0)
    .map(([worker, n]) => `worker ${worker} has ${n}`)
    .join(', ');
  return (
    <figure className="map">
      <Switch
        label="Colours show"
        all={COLOURINGS}
        chosen={colouring}
        name={name => ({ owner: 'Owner', load: 'Load', size: 'Size' })[name]}
        onChoose={setColouring}
      />
      <Cells
        cells={drawing}
        byOwner={colouring === 'owner'}
        label={`Partitions by worker: ${summary}${moving ? `; ${moving} are moving` : ''}`}
        shown={shown}
        onShow={setShown}
      />
      <p className="told" aria-live="polite">
        {current ? (
          <>
            <b>Partition {current.partition}</b>, worker {current.worker}
            {current.moves_to != null && `, on its way to ${current.moves_to}`}:{' '}
            {plural(current.entities, 'entity', 'entities')}, {bytes(current.bytes)}, {plural(current.calls, 'call')}
            {load && ` (${rate(load.get(current.partition) ?? 0)} a second)`}
          </>
        ) : (
          <span className="quiet">
            {
              {
                owner: 'Stronger cells hold more entities.',
                load: !load
                  ? 'Calls are being counted.'
                  : most > 0
                    ? 'Stronger cells are called more often.'
                    : 'Nobody has called any of them since the last reading.',
                size: 'Stronger cells hold more bytes.',
              }[colouring]
            }
          </span>
        )}
      </p>
      <figcaption>
        {[...owners].map(([worker, n]) => (
          <button
            key={worker}
            type="button"
            className="legend"
            aria-pressed={only === worker}
            title="Show only its partitions"
            onClick={() => setAlone(only === worker ? '' : String(worker))}
          >
            {colouring === 'owner' && <span className={`swatch ${colorOf(worker)}`} aria-hidden="true" />}
            worker {worker} <b>{count(n)}</b>
          </button>
        ))}
        {moving > 0 && (
          <span className="legend">
            <span className="swatch moving" aria-hidden="true" />
            moving <b>{count(moving)}</b>
          </span>
        )}
        {moved.size > 0 && (
          <span className="legend">
            <span className="swatch moved" aria-hidden="true" />
            moved just now <b>{count(moved.size)}</b>
          </span>
        )}
        {colouring !== 'owner' && (
          <span className="legend">
            0 <span className="ramp" aria-hidden="true" />{' '}
            <b>{colouring === 'load' ? `${rate(most)} calls a second` : bytes(most)}</b>
          </span>
        )}
      </figcaption>
      <AsTable partitions={partitions} value={value} load={load} colouring={colouring} />
    </figure>
  );
}

interface Cell {
  worker: number;
  movesTo: number | null;
  /** How much of what is shown, 0 to 1. */
  strength: number;
  moved: boolean;
  /** It is not among those that are looked at. */
  faint: boolean;
}

interface CellsProps {
  cells: Cell[];
  byOwner: boolean;
  label: string;
  shown: number | null;
  onShow: (at: number | null) => void;
}

/** The canvas; one more lies over it that has what moves, and is faded in and out without being drawn again. */
function Cells({ cells, byOwner, label, shown, onShow }: CellsProps) {
  const box = useRef<HTMLDivElement>(null);
  const below = useRef<HTMLCanvasElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const density = Math.min(2, window.devicePixelRatio || 1);
  const grid = useMemo(() => gridOf(cells.length, width, density), [cells.length, width, density]);
  const colours = useShown();
  useEffect(() => {
    if (below.current && above.current && box.current) {
      draw(below.current, above.current, palette(box.current), cells, grid, byOwner);
    }
  }, [cells, grid, byOwner, colours]);
  const point = (event: PointerEvent<HTMLDivElement>) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    onShow(cellAt(grid, cells.length, (event.clientX - left) * density, (event.clientY - top) * density));
  };
  const press = (event: KeyboardEvent) => {
    const to = event.key === 'Escape' ? null : cellBy(event.key, shown ?? -1, grid, cells.length);
    if (to === null && event.key !== 'Escape') return;
    event.preventDefault();
    onShow(to === null ? null : Math.max(0, to));
  };
  const side = grid.pitch / density;
  const column = (at: number) => columnAt(grid, at) / density;
  const size = { width: column(grid.across), height: grid.down * side };
  return (
    <div
      ref={box}
      className="cells"
      role="img"
      aria-label={label}
      tabIndex={0}
      style={{ height: size.height }}
      onKeyDown={press}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={() => onShow(null)}
      onBlur={() => onShow(null)}
    >
      <canvas ref={below} style={size} />
      <canvas ref={above} style={size} className="moving" />
      {shown !== null && (
        <span
          className="cursor"
          style={{
            width: column((shown % grid.across) + 1) - column(shown % grid.across),
            height: side,
            translate: `${column(shown % grid.across)}px ${Math.floor(shown / grid.across) * side}px`,
          }}
        />
      )}
    </div>
  );
}

function useWidth(box: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(1000);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => entry && setWidth(Math.max(160, entry.contentRect.width)));
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, [box]);
  return width;
}

type Colour = [number, number, number];

interface Palette {
  workers: Colour[];
  accent: Colour;
  empty: Colour;
  text: string;
}

/** Colours as the page has them at this moment, light or dark. */
function palette(box: HTMLElement): Palette {
  const probe = document.createElement('span');
  box.append(probe);
  const read = (colour: string, name = ''): Colour => {
    probe.className = name;
    probe.style.color = colour;
    const [r = 0, g = 0, b = 0] = (getComputedStyle(probe).color.match(/[\d.]+/g) ?? []).map(Number);
    return [r, g, b];
  };
  const found: Palette = {
    workers: Array.from({ length: COLORS }, (_, at) => read('var(--c)', `w${at + 1}`)),
    accent: read('var(--accent)'),
    empty: read('var(--raised)'),
    text: `rgb(${read('var(--text)').join(' ')})`,
  };
  probe.remove();
  return found;
}

/** So many steps from one colour to another: cells of one are drawn together. */
const STEPS = 12;

const mixed = (from: Colour, to: Colour, share: number): string =>
  `rgb(${from.map((part, at) => Math.round(part + ((to[at] ?? 0) - part) * share)).join(' ')})`;

function draw(
  below: HTMLCanvasElement,
  above: HTMLCanvasElement,
  { workers, accent, empty, text }: Palette,
  cells: Cell[],
  grid: Grid,
  byOwner: boolean,
): void {
  const { across, down, pitch } = grid;
  const [ground, top] = [below, above].map(canvas => {
    canvas.width = columnAt(grid, across);
    canvas.height = down * pitch;
    return canvas.getContext('2d')!;
  }) as [CanvasRenderingContext2D, CanvasRenderingContext2D];
  const gap = pitch >= 6 ? Math.max(1, Math.round(pitch * 0.1)) : 0;
  const side = pitch - gap;
  const edge = Math.max(1, Math.round(side / 14));
  const columns = Array.from({ length: across + 1 }, (_, at) => columnAt(grid, at));
  const place = (at: number): [number, number, number] => {
    const left = columns[at % across]!;
    return [left, Math.floor(at / across) * pitch, columns[(at % across) + 1]! - left - gap];
  };
  const colour = (worker: number, { strength, faint }: Cell) => {
    const to = byOwner ? workers[(worker - 1) % COLORS]! : accent;
    const share = byOwner ? 0.35 + 0.65 * strength : strength;
    return mixed(empty, to, (Math.round(share * STEPS) / STEPS) * (faint ? 0.15 : 1));
  };
  // A change of colour takes longer than a cell.
  const fill = (context: CanvasRenderingContext2D, of: (cell: Cell) => string | null) => {
    const groups = new Map<string, number[]>();
    cells.forEach((cell, at) => {
      const fill = of(cell);
      if (fill === null) return;
      const group = groups.get(fill);
      if (group) group.push(at);
      else groups.set(fill, [at]);
    });
    for (const [fill, all] of groups) {
      context.fillStyle = fill;
      for (const at of all) {
        const [x, y, width] = place(at);
        context.fillRect(x, y, width, side);
      }
    }
  };
  const frame = (context: CanvasRenderingContext2D, which: (cell: Cell) => boolean) => {
    context.fillStyle = text;
    context.globalAlpha = 0.65;
    cells.forEach((cell, at) => {
      if (!which(cell)) return;
      const [x, y, width] = place(at);
      context.fillRect(x, y, width, edge);
      context.fillRect(x, y + side - edge, width, edge);
      context.fillRect(x, y, edge, side);
      context.fillRect(x + width - edge, y, edge, side);
    });
  };
  fill(ground, cell => colour(cell.worker, cell));
  frame(ground, cell => cell.moved);
  fill(top, cell => (cell.movesTo === null ? null : colour(byOwner ? cell.movesTo : cell.worker, cell)));
  frame(top, cell => cell.movesTo !== null);
}

const ROWS = 50;

/** The same as a table, those with most of what is shown first. */
function AsTable({ partitions, value, load, colouring }: AsTableProps) {
  const [open, setOpen] = useState(false);
  const [from, setFrom] = useState(0);
  const first = Math.min(from, Math.max(0, Math.ceil(partitions.length / ROWS) - 1) * ROWS);
  const sorted = open ? partitions.toSorted((a, b) => value(b) - value(a) || a.partition - b.partition) : [];
  return (
    <details onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      {open && (
        <>
          <Table
            label="Partitions"
            columns={[
              'Partition',
              'Worker',
              number('Entities'),
              number('Bytes'),
              number('Calls'),
              number('Calls a second'),
              'On its way to',
            ]}
          >
            {sorted.slice(first, first + ROWS).map(one => (
              <tr key={one.partition}>
                <td>{one.partition}</td>
                <td>
                  <span className={`swatch ${colorOf(one.worker)}`} aria-hidden="true" /> {one.worker}
                </td>
                <td className="number">{count(one.entities)}</td>
                <td className="number">{bytes(one.bytes)}</td>
                <td className="number">{count(one.calls)}</td>
                <td className="number">{load ? rate(load.get(one.partition) ?? 0) : '–'}</td>
                <td>{one.moves_to ?? ''}</td>
              </tr>
            ))}
          </Table>
          <div className="pager">
            <span className="quiet">
              {first + 1} to {Math.min(partitions.length, first + ROWS)} of {count(partitions.length)}, by{' '}
              {{ owner: 'entities', load: 'calls a second', size: 'bytes' }[colouring]}
            </span>
            <Button disabled={first === 0} onClick={() => setFrom(first - ROWS)}>
              Those before
            </Button>
            <Button disabled={first + ROWS >= partitions.length} onClick={() => setFrom(first + ROWS)}>
              Those after
            </Button>
          </div>
        </>
      )}
    </details>
  );
}

interface AsTableProps {
  partitions: Partition[];
  value: (one: Partition) => number;
  load: Map<number, number> | null;
  colouring: Colouring;
}

/** How many each worker has; those that are to have some are there as well. */
function countByOwner(partitions: Partition[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const { worker, moves_to: to } of partitions) {
    counts.set(worker, (counts.get(worker) ?? 0) + 1);
    if (to != null && !counts.has(to)) counts.set(to, 0);
  }
  return new Map([...counts].sort(([a], [b]) => a - b));
}
