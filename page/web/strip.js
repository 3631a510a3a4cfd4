// Steps as bars, by how long they took.

import {hashOf} from '/api.js';
import {svg, withTip} from '/dom.js';
import {count, time} from '/format.js';

/** `chosen`: {step, trainer}. */
export function strip(steps, chosen) {
  const width = 1200;
  const height = 92;
  const most = Math.max(...steps.steps.map((one) => one.time_ns));
  const each = width / Math.max(steps.steps.length, 24);
  const y = (ns) => height - 4 - (height - 12) * (ns / most);
  const bars = steps.steps.map((one, i) => {
    const isChosen = one.step === chosen.step && (one.trainer ?? '') === chosen.trainer;
    const bar = svg(
      'a',
      {
        href: hashOf('steps', one.step, {trainer: one.trainer}),
        class: `step-bar${isChosen ? ' chosen' : ''}${one.time_ns > steps.p95_ns ? ' slow' : ''}`,
        'aria-label': `step ${one.step}, ${time(one.time_ns)}`,
        'aria-current': isChosen ? 'true' : null,
        tabindex: isChosen || (i === 0 && !chosen.step) ? 0 : -1,
      },
      svg('rect', {class: 'hit', x: i * each, y: 0, width: each, height}),
      svg('rect', {
        class: 'on',
        x: i * each + each * 0.1,
        y: y(one.time_ns),
        width: each * 0.8,
        height: height - y(one.time_ns),
        rx: Math.min(2, each * 0.2),
      }),
    );
    return withTip(bar, () => [
      `step ${count(one.step)}${one.trainer ? ` of ${one.trainer}` : ''}`,
      time(one.time_ns),
    ]);
  });
  const rule = (ns, text) => [
    svg('line', {class: 'grid', x1: 0, x2: width, y1: y(ns), y2: y(ns)}),
    svg('title', {}, text),
  ];
  return svg(
    'svg',
    {
      viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: 'none',
      class: 'strip',
      role: 'group',
      'aria-label': 'Steps by how long they took',
    },
    svg('g', {}, rule(steps.p50_ns, `median ${time(steps.p50_ns)}`)),
    bars,
  );
}
