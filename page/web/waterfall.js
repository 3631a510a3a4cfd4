// What each actor did during a step, as bars over time; those on the critical path stand out, joined by the path.

import {hashOf} from '/api.js';
import {el, svg, withTip} from '/dom.js';
import {time} from '/format.js';

const rowHeight = 30;
const room = {left: 118, right: 14, top: 22};
const width = 1200;

/** Names with a colour of their own; all messages share one. */
export const colours = [
  'forward/backward',
  'backward parameters',
  'apply',
  'pool',
  'sum',
  'prepare batch',
  'evaluate',
  'save',
];
/** A pipeline's passes have the colours of a whole network's. */
const alike = {forward: 'forward/backward', backward: 'backward parameters'};
const classOf = (bar) => {
  const i = colours.indexOf(alike[bar.name] ?? bar.name);
  if (i >= 0) return `colour-${i}`;
  return bar.kind === 'handled' ? 'colour-message' : bar.kind === 'collective' ? 'colour-collective' : 'colour-other';
};

/** About ten lines at round times. */
function ticks(span) {
  const rough = span / 9;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((x) => x * power).find((x) => x >= rough);
  return Array.from({length: Math.floor(span / step) + 1}, (_, i) => i * step);
}

/** Bars of one actor that overlap lie in each other: a range in its message. */
function depths(bars) {
  const open = [];
  return bars.map((bar) => {
    while (open.length > 0 && open.at(-1).end_ns <= bar.begin_ns) open.pop();
    open.push(bar);
    return open.length - 1;
  });
}

const endOf = (part) => part.begin_ns + part.time_ns;

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

/** Where things lie: moments from left to right, actors from top to bottom. */
function frameOf(step) {
  const span = Math.max(1, step.end_ns - step.begin_ns);
  const scale = (width - room.left - room.right) / span;
  const rows = new Map(step.actors.map((one, i) => [one.actor, i]));
  return {
    span,
    height: room.top + rows.size * rowHeight + 8,
    has: (actor) => rows.has(actor),
    x: (ns) => room.left + (Math.max(step.begin_ns, Math.min(step.end_ns, ns)) - step.begin_ns) * scale,
    y: (actor) => room.top + rows.get(actor) * rowHeight,
  };
}

function drawBar(bar, actor, depth, {step, frame, isCritical, hasInner}) {
  const {x, y} = frame;
  const inset = Math.min(depth, 3) * 3;
  const wide = x(bar.end_ns) - x(bar.begin_ns);
  const classes = ['bar', classOf(bar), isCritical && 'critical', bar.kind === 'collective' && 'hollow'];
  const node = svg(
    bar.id ? 'a' : 'g',
    {
      href: bar.id ? hashOf('messages', bar.id) : null,
      class: classes.filter(Boolean).join(' '),
      tabindex: -1,
      'aria-label': `${actor}: ${bar.name}, ${time(bar.end_ns - bar.begin_ns)}`,
    },
    svg('rect', {
      x: x(bar.begin_ns),
      y: y(actor) + 4 + inset,
      width: Math.max(wide, 1),
      height: rowHeight - 8 - 2 * inset,
      rx: Math.min(3, wide / 2),
    }),
    wide > 48 &&
      !hasInner &&
      svg('text', {x: x(bar.begin_ns) + 6, y: y(actor) + rowHeight / 2 + 4}, cut(bar.name, Math.floor(wide / 7))),
  );
  return withTip(node, () =>
    [
      bar.name,
      `${actor}${bar.from ? `, from ${bar.from}` : ''}`,
      time(bar.end_ns - bar.begin_ns),
      `begins ${time(bar.begin_ns - step.begin_ns)} into the step`,
      isCritical ? 'on the critical path' : '',
    ].filter(Boolean),
  );
}

function drawBars(step, chain, frame) {
  const isCritical = (actor, bar) =>
    chain.some(
      (part) =>
        part.actor === actor && part.kind === 'work' && part.begin_ns < bar.end_ns && endOf(part) > bar.begin_ns,
    );
  return step.actors.map(({actor, bars}) => {
    const depth = depths(bars);
    return bars.map((bar, i) =>
      drawBar(bar, actor, depth[i], {
        step,
        frame,
        isCritical: isCritical(actor, bar),
        hasInner: depth[i + 1] === depth[i] + 1,
      }),
    );
  });
}

/** Along the lower edge of the bars that it goes through. */
function drawPath(chain, {x, y, has}) {
  const under = (actor) => y(actor) + rowHeight - 3;
  const parts = chain.map((part, i) => {
    const from = part.from && has(part.from) ? part.from : part.actor;
    return `${i === 0 ? 'M' : 'L'}${x(part.begin_ns)} ${under(from)}L${x(endOf(part))} ${under(part.actor)}`;
  });
  return svg('path', {class: 'critical-line', d: parts.join('')});
}

function drawGround(step, {x, y, span, height}) {
  return [
    ticks(span).map((ns) => {
      const at = x(step.begin_ns + ns);
      return [
        svg('line', {class: 'grid', x1: at, x2: at, y1: room.top - 4, y2: height}),
        svg('text', {class: 'axis', x: at, y: 12, 'text-anchor': 'middle'}, time(ns)),
      ];
    }),
    step.actors.map(({actor}) => {
      const below = y(actor) + rowHeight;
      return [
        svg('line', {class: 'row-line', x1: 0, x2: width, y1: below, y2: below}),
        svg('text', {class: 'row-name', x: 4, y: y(actor) + rowHeight / 2 + 4}, cut(actor, 16)),
      ];
    }),
  ];
}

function legend(step, hasPath) {
  const used = new Set(step.actors.flatMap((one) => one.bars.map(classOf)));
  const entry = (name, swatch) => el('span', {}, el('i', {class: `swatch ${swatch}`}), name);
  return el(
    'div',
    {class: 'legend', 'aria-hidden': 'true'},
    colours.map((name, i) => used.has(`colour-${i}`) && entry(name, `colour-${i}`)),
    entry('message', 'colour-message'),
    hasPath && entry('critical path', 'path'),
  );
}

/** `step`: as the server describes it. */
export function drawWaterfall(step) {
  const frame = frameOf(step);
  const chain = step.path.chain.filter((part) => frame.has(part.actor));
  const hasPath = chain.length > 0;
  const picture = svg(
    'svg',
    {
      viewBox: `0 0 ${width} ${frame.height}`,
      class: `waterfall${hasPath ? ' has-path' : ''}`,
      role: 'group',
      'aria-label': `What each actor did in step ${step.step}`,
    },
    drawGround(step, frame),
    drawBars(step, chain, frame),
    hasPath && drawPath(chain, frame),
  );
  return el('div', {class: 'scroll'}, picture, legend(step, hasPath));
}
