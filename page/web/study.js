// One step more closely: its waterfall, what its critical path is made of, and how much time others had left.

import {hashOf} from '/api.js';
import {card, el, muted, table} from '/dom.js';
import {count, percent, time} from '/format.js';
import {openInPerfetto} from '/perfetto.js';
import {drawWaterfall} from '/waterfall.js';

const chainMost = 200;

/** Of a part of a path: an actor, or the two between which a message was under way. */
export const whoOf = (part) => (part.from ? `${part.from} to ${part.actor}` : part.actor);

function formula(path) {
  return el(
    'p',
    {class: 'formula'},
    el('strong', {}, time(path.time_ns)),
    ' = ',
    path.parts.map((part, i) => [
      i > 0 && el('span', {class: 'muted'}, ' + '),
      el(
        'span',
        {class: 'term'},
        `${part.what} `,
        el('b', {}, time(part.time_ns)),
        el('span', {class: 'muted'}, ` (${whoOf(part)}${part.queued_ns > 0 ? `, ${time(part.queued_ns)} queued` : ''})`),
      ),
    ]),
  );
}

const chain = (path) =>
  table(
    [
      {title: 'From begin', of: (x) => time(x.begin_ns - path.begin_ns), numeric: true},
      {title: 'What', of: (x) => (x.id ? el('a', {href: hashOf('messages', x.id)}, x.what) : x.what)},
      {title: 'Who', of: whoOf},
      {title: 'Time', of: (x) => time(x.time_ns), numeric: true},
      {
        title: 'Share',
        of: (x) => {
          const share = x.time_ns / path.time_ns;
          return el('span', {class: 'share', style: {'--share': `${(share * 100).toFixed(1)}%`}}, percent(share));
        },
        numeric: true,
      },
    ],
    path.chain.slice(0, chainMost),
    {class: 'chain'},
  );

const slack = (path) =>
  table(
    [
      {title: 'Actor', of: (x) => x.actor},
      {title: 'Working', of: (x) => time(x.working_ns), numeric: true},
      {title: 'Longest', of: (x) => (x.longest_ns > 0 ? `${x.longest} ${time(x.longest_ns)}` : '')},
      {
        title: 'Slack',
        of: (x) =>
          x.slack_ns === null
            ? el('span', {class: 'muted'}, 'nothing waits for it')
            : x.slack_ns === 0
              ? el('span', {class: 'tag critical'}, 'critical')
              : time(x.slack_ns),
        numeric: true,
      },
    ],
    path.actors,
  );

function whatIf(path) {
  if (!path.if_halved) return null;
  const {of: part, time_ns: after, largest} = path.if_halved;
  return el(
    'p',
    {class: 'what-if'},
    el('span', {class: 'tag'}, 'what if'),
    ` ${part.what} (${whoOf(part)}) took half its time: the step would take `,
    el('b', {}, time(after)),
    el('span', {class: 'muted'}, ` instead of ${time(path.time_ns)}`),
    largest && [
      ', and ',
      el('b', {}, `${largest.what} (${whoOf(largest)})`),
      ` would take longest: ${time(largest.time_ns)}.`,
    ],
  );
}

function exportButton(step, trainer, run) {
  const problem = el('span', {class: 'alarm', role: 'status'});
  const report = (text) => {
    problem.textContent = text;
  };
  const handOver = () => openInPerfetto(run, report, {step: step.step, trainer});
  return [
    el('button', {type: 'button', class: 'button small-button', onclick: handOver}, 'This step in Perfetto'),
    problem,
  ];
}

/** The cards of `step`, as the server describes it. */
export function drawStudy(step, trainer, run) {
  const path = step.path;
  const leftOut = step.left_out > 0 ? `; ${count(step.left_out)} short bars are left out` : '';
  const note = muted(`${time(step.end_ns - step.begin_ns)}${leftOut}`);
  const chainNote =
    path.chain.length > chainMost
      ? `the first ${chainMost} of ${path.chain.length} parts`
      : 'from the begin of the step to its commit';
  return [
    card(
      `Step ${count(step.step)}`,
      el('span', {class: 'controls'}, note, exportButton(step, trainer, run)),
      formula(path),
      drawWaterfall(step),
      whatIf(path),
    ),
    el(
      'div',
      {class: 'columns even'},
      card('Critical path', muted(chainNote), chain(path)),
      card('Slack', muted('how much longer each could have taken'), slack(path)),
    ),
  ];
}
