// Where the calls of a graph stand in its picture: callers left, callees right, in the order in which they were called.

export interface Node<T> {
  call: T;
  x: number;
  y: number;
  children: Node<T>[];
}

interface Call {
  id: string;
  parent?: string | null;
}

export interface Layout<T> {
  roots: Node<T>[];
  nodes: Node<T>[];
  columns: number;
  rows: number;
  /** Calls that are not drawn. */
  left: number;
}

/** Lays out at most so many calls. A caller stands at the middle of whom it calls. */
export function layout<T extends Call>(calls: T[], max: number): Layout<T> {
  const shown = calls.slice(0, max);
  const nodes = new Map(shown.map(call => [call.id, { call, x: 0, y: 0, children: [] } as Node<T>]));
  const roots: Node<T>[] = [];
  for (const node of nodes.values()) {
    const parent = node.call.parent == null ? undefined : nodes.get(node.call.parent);
    if (parent && parent !== node) parent.children.push(node);
    else roots.push(node);
  }
  let rows = 0;
  let columns = 0;
  const place = (node: Node<T>, x: number): number => {
    columns = Math.max(columns, x + 1);
    node.x = x;
    const below = node.children.map(child => place(child, x + 1));
    node.y = below.length ? (below[0]! + below.at(-1)!) / 2 : rows++;
    return node.y;
  };
  roots.forEach(root => place(root, 0));
  return { roots, nodes: [...nodes.values()], columns, rows, left: calls.length - shown.length };
}
