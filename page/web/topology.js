// Messages between actors, as a drawing: actors in columns by what they are, an edge as thick as its bytes and as warm
// as the queue at its end.

import {hashOf} from '/api.js';
import {svg, withTip} from '/dom.js';
import {bytes, count, percent, short, time} from '/format.js';

const box = {width: 168, height: 46, gap: 14};
const order = ['trainer', 'master', 'allreduce', 'node', 'server'];
const waitedLong = 1e9;

/** Trainers to the left, servers to the right; above and below what lies between them, so that it hides no edge. */
function columnOf(role) {
  if (role === 'trainer') return 'left';
  return role === 'server' ? 'right' : role === 'allreduce' ? 'below' : 'above';
}

/** How much waits: 0 nothing, 1 as much as is handled, 2 more. */
export const heatOf = (queue) => (queue >= 2 ? 2 : queue >= 0.5 ? 1 : 0);

function place(actors, width) {
  const groups = {left: [], right: [], above: [], below: []};
  const rank = (one) => (order.indexOf(one.role) + order.length + 1) % (order.length + 1);
  for (const one of actors) groups[columnOf(one.role)].push(one);
  groups.above.sort((a, b) => rank(a) - rank(b));
  const at = new Map();
  const gap = Math.max(groups.left.length, groups.right.length) > 16 ? 6 : box.gap;
  const each = box.height + gap;
  // As many beside each other as fit between the sides.
  const between = Math.max(1, Math.floor((width - 2 * box.width - 80) / (box.width + box.gap)));
  const row = (list, top) =>
    list.forEach((one, i) => {
      const inRow = Math.min(between, list.length - Math.floor(i / between) * between);
      const left = (width - inRow * box.width - (inRow - 1) * box.gap) / 2;
      at.set(one.actor, {
        x: left + (i % between) * (box.width + box.gap),
        y: top + Math.floor(i / between) * each,
        side: 'middle',
      });
    });
  const rows = (list) => Math.ceil(list.length / between) * each;
  const [above, below] = [rows(groups.above), rows(groups.below)];
  const sides = Math.max(groups.left.length, groups.right.length) * each;
  const height = above + sides + below + 8;
  const side = (list, x, name) => {
    const step = Math.min(sides / Math.max(1, list.length), each * 1.7);
    const top = above + (sides - step * list.length) / 2;
    list.forEach((one, i) => at.set(one.actor, {x, y: top + step * (i + 0.5) - box.height / 2, side: name}));
  };
  side(groups.left, 2, 'left');
  side(groups.right, width - box.width - 2, 'right');
  row(groups.above, 4);
  row(groups.below, height - below + gap / 2);
  return {at, height};
}

/** From border to border, bent so that there and back do not lie on each other. */
function path(from, to) {
  const mid = (p) => p.y + box.height / 2;
  if (Math.abs(from.x - to.x) < box.width) {
    const x = from.x + (from.side === 'right' ? 0 : box.width);
    const out = x + (from.side === 'right' ? -70 : 70);
    return `M${x} ${mid(from)}C${out} ${mid(from)} ${out} ${mid(to)} ${x} ${mid(to)}`;
  }
  const right = to.x > from.x;
  const shift = right ? -6 : 6;
  const x1 = from.x + (right ? box.width : 0);
  const x2 = to.x + (right ? 0 : box.width);
  const bend = (x2 - x1) * 0.45;
  return `M${x1} ${mid(from) + shift}C${x1 + bend} ${mid(from) + shift} ${x2 - bend} ${mid(to) + shift} ${x2} ${mid(to) + shift}`;
}

function drawEdge(edge, at, most) {
  const [from, to] = [at.get(edge.from), at.get(edge.to)];
  if (!from || !to || edge.from === edge.to) return null;
  const line = svg('path', {
    d: path(from, to),
    class: `edge heat-${heatOf(edge.queue)}`,
    'data-from': edge.from,
    'data-to': edge.to,
    'stroke-width': (0.8 + 2.8 * Math.sqrt(edge.bytes / most)).toFixed(2),
  });
  return withTip(line, () => [
    `${edge.from} \u2192 ${edge.to}`,
    `${count(edge.messages)} messages, ${bytes(edge.bytes)}`,
    `${time(edge.latency_ns / edge.messages)} from sent to handled, on average`,
    `${time(edge.queued_ns / edge.messages)} of it queued`,
  ]);
}

/** Of a run that stands still: an actor may also wait long for what is sure to come. */
const drawWaiting = (blocked, at) =>
  (blocked.moving || blocked.class === 'none' ? [] : blocked.waits)
    .filter((one) => one.waiting_ns >= waitedLong && at.has(one.who) && at.has(one.on) && one.who !== one.on)
    .map((one) =>
      withTip(svg('path', {d: path(at.get(one.who), at.get(one.on)), class: 'edge waiting'}), () => [
        `${one.who} waits for ${one.on}`,
        one.for,
        `for ${time(one.waiting_ns)}`,
      ]),
    );

function wordOf(one) {
  if (!one.alive && one.handled > 0) return 'ended';
  if (one.working_ns !== undefined) return `${one.message_type ?? 'working'} \u00b7 ${time(one.working_ns)}`;
  if (one.open.length > 0) return `waits: ${one.open[0].type}`;
  if (one.calls.length > 0) return `waits: ${one.calls[0].call}`;
  return 'idle';
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

function drawActor(one, {x, y}) {
  const heat = heatOf(one.queue);
  const node = svg(
    'a',
    {
      href: hashOf('messages', '', {actor: one.actor}),
      class: `actor heat-${heat}`,
      transform: `translate(${x} ${y})`,
      'data-actor': one.actor,
      'aria-label': `${one.actor}: ${wordOf(one)}, busy ${percent(one.busy)}, queue ${short(one.queue)}`,
    },
    svg('rect', {class: 'body', width: box.width, height: box.height, rx: 9}),
    svg('rect', {class: 'meter', x: 12, y: box.height - 8, width: box.width - 24, height: 3, rx: 1.5}),
    svg('rect', {
      class: 'meter-on',
      x: 12,
      y: box.height - 8,
      width: Math.max(0, (box.width - 24) * Math.min(1, one.busy)),
      height: 3,
      rx: 1.5,
    }),
    svg('text', {class: 'actor-name', x: 12, y: 17}, cut(one.actor, 16)),
    svg('text', {class: 'actor-state', x: 12, y: 31}, cut(wordOf(one), 24)),
    one.queue >= 0.05 && [
      svg('rect', {class: 'badge', x: box.width - 44, y: 6, width: 36, height: 15, rx: 7.5}),
      svg(
        'text',
        {class: 'badge-text', x: box.width - 26, y: 17, 'text-anchor': 'middle'},
        one.queue.toFixed(one.queue < 10 ? 1 : 0),
      ),
    ],
  );
  return withTip(node, () => [
    one.actor,
    wordOf(one),
    `busy ${percent(one.busy)} of the time`,
    `queue: ${one.queue.toFixed(2)} messages on average`,
    `${count(one.handled)} messages handled`,
    `${one.open.length + one.open_more} open requests`,
  ]);
}

/** The drawing; what the pointer or the focus is on is brought forward. */
export function drawTopology(topology, blocked, width) {
  const {at, height} = place(topology.actors, width);
  const most = Math.max(1, ...topology.edges.map((edge) => edge.bytes));
  const edges = topology.edges.map((edge) => drawEdge(edge, at, most));
  const actors = topology.actors.map((one) => drawActor(one, at.get(one.actor)));
  const picture = svg(
    'svg',
    {
      class: 'topology-drawing',
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: 'group',
      'aria-label': 'Actors and the messages between them',
    },
    svg('g', {}, edges),
    svg('g', {}, drawWaiting(blocked, at)),
    svg('g', {}, actors),
  );
  const bring = (name) => {
    picture.classList.toggle('chosen', name !== null);
    for (const edge of picture.querySelectorAll('.edge[data-from]'))
      edge.classList.toggle('of-chosen', edge.dataset.from === name || edge.dataset.to === name);
  };
  for (const node of actors) {
    for (const event of ['pointerenter', 'focus']) node.addEventListener(event, () => bring(node.dataset.actor));
    for (const event of ['pointerleave', 'blur']) node.addEventListener(event, () => bring(null));
  }
  return picture;
}
