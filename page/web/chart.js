// A line over steps: small, with its last value, and the value under the pointer.

import {el, svg} from '/dom.js';
import {count, figure, mark} from '/format.js';

const width = 360;
const height = 96;
const room = {left: 44, right: 8, top: 8, bottom: 18};

function nice(least, most) {
  if (least === most) return [least - Math.abs(least || 1) * 0.1, most + Math.abs(most || 1) * 0.1];
  const slack = (most - least) * 0.06;
  return [least - slack, most + slack];
}

/** `curve`: {name, unit, points: [[step, value], ...]}. */
export function chart(curve) {
  const {points} = curve;
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const values = points.map(([, y]) => y);
  const [least, most] = nice(Math.min(...values), Math.max(...values));
  const x = (step) =>
    room.left + (width - room.left - room.right) * (last === first ? 0.5 : (step - first) / (last - first));
  const y = (value) => room.top + (height - room.top - room.bottom) * (1 - (value - least) / (most - least));
  const line = points
    .map(([step, value], i) => `${i ? 'L' : 'M'}${x(step).toFixed(1)} ${y(value).toFixed(1)}`)
    .join('');
  const marks =
    Math.min(...values) === Math.max(...values)
      ? [values[0]]
      : [least + (most - least) * 0.06, (least + most) / 2, most - (most - least) * 0.06];
  const label = (text, at) => svg('text', {class: 'axis', ...at}, text);
  const dot = svg('circle', {r: 3.2, class: 'dot', visibility: 'hidden'});
  const rule = svg('line', {class: 'rule', y1: room.top, y2: height - room.bottom, visibility: 'hidden'});
  const now = el('span', {class: 'value'}, figure(points.at(-1)[1], curve.unit));
  const at = el('span', {class: 'muted'}, `step ${count(last)}`);
  const picture = svg(
    'svg',
    {
      viewBox: `0 0 ${width} ${height}`,
      class: 'chart',
      role: 'img',
      'aria-label': `${curve.name} from step ${first} to ${last}: ${figure(points[0][1], curve.unit)} to ${figure(points.at(-1)[1], curve.unit)}`,
    },
    marks.map((value) => [
      svg('line', {class: 'grid', x1: room.left, x2: width - room.right, y1: y(value), y2: y(value)}),
      label(mark(value), {x: room.left - 6, y: y(value) + 3, 'text-anchor': 'end'}),
    ]),
    label(count(first), {x: room.left, y: height - 4}),
    label(count(last), {x: width - room.right, y: height - 4, 'text-anchor': 'end'}),
    svg('path', {class: 'area', d: `${line}L${x(last)} ${height - room.bottom}L${x(first)} ${height - room.bottom}Z`}),
    svg('path', {class: 'line', d: line}),
    points.length <= 12 &&
      points.map(([step, value]) => svg('circle', {class: 'dot', r: 2.4, cx: x(step), cy: y(value)})),
    rule,
    dot,
  );
  const point = ([step, value], shown) => {
    now.textContent = figure(value, curve.unit);
    at.textContent = `step ${count(step)}`;
    for (const mark of [dot, rule]) mark.setAttribute('visibility', shown ? 'visible' : 'hidden');
    dot.setAttribute('cx', x(step));
    dot.setAttribute('cy', y(value));
    rule.setAttribute('x1', x(step));
    rule.setAttribute('x2', x(step));
  };
  picture.addEventListener('pointermove', (e) => {
    const box = picture.getBoundingClientRect();
    const where = ((e.clientX - box.left) / box.width) * width;
    point(
      points.reduce((a, b) => (Math.abs(x(b[0]) - where) < Math.abs(x(a[0]) - where) ? b : a)),
      true,
    );
  });
  picture.addEventListener('pointerleave', () => point(points.at(-1), false));
  return el(
    'figure',
    {class: 'curve'},
    el('figcaption', {}, el('span', {class: 'label'}, curve.name), now, at),
    picture,
  );
}

/** A line alone, for beside a figure. */
export function spark(points) {
  if (points.length < 2) return null;
  const values = points.map(([, y]) => y);
  const [least, most] = nice(Math.min(...values), Math.max(...values));
  const at = (value, i) =>
    `${((i / (values.length - 1)) * 100).toFixed(1)} ${(24 - ((value - least) / (most - least)) * 22).toFixed(1)}`;
  return svg(
    'svg',
    {class: 'spark', viewBox: '0 0 100 26', preserveAspectRatio: 'none', 'aria-hidden': 'true'},
    svg('path', {class: 'line', d: values.map((value, i) => `${i ? 'L' : 'M'}${at(value, i)}`).join('')}),
  );
}
