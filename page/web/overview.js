// At one look: is the run well, how fast is it, who is busy, where does it queue.

import {get} from '/api.js';
import {chart, spark} from '/chart.js';
import {card, el, empty, table} from '/dom.js';
import {bytes, count, figure, short, time} from '/format.js';
import {drawTopology} from '/topology.js';
import {banner} from '/verdict.js';

const recent = 10e9;

function tile(label, value, unit, note, points) {
  return el(
    'div',
    {class: 'tile'},
    el('div', {class: 'label'}, label),
    el('div', {class: 'big'}, value, unit && el('span', {class: 'unit'}, ` ${unit}`)),
    el('div', {class: 'note'}, note ?? ''),
    points && spark(points),
  );
}

const split = (text) => {
  const [value, ...unit] = text.split(' ');
  return [value, unit.join(' ')];
};

/** What the test rows gave, in the word that says most of this job. */
function tested(figures) {
  if (figures.auc !== undefined) return `AUC ${figure(figures.auc)}`;
  if (figures.rmse !== undefined) return `RMSE ${figure(figures.rmse)}`;
  return figures.test_loss !== undefined ? `test loss ${figure(figures.test_loss)}` : '';
}

function tiles(run, steps, curves) {
  const curve = (name) => curves.find((one) => one.name === name)?.points;
  const figures = run.figures ?? {};
  const lost = run.processes.reduce((sum, one) => sum + one.torn + one.contents_lost, 0);
  const overwritten = run.processes.reduce((sum, one) => sum + one.overwritten, 0);
  const all = [];
  if (steps.recorded > 0) {
    all.push(tile('Step', count(steps.last_step), '', `${count(steps.recorded)} whole ones recorded`));
    all.push(tile('Step time, median', ...split(time(steps.p50_ns)), `p95 ${time(steps.p95_ns)}`, curve('step time')));
  }
  if (figures.samples_per_s !== undefined)
    all.push(tile('Samples', ...split(short(figures.samples_per_s)), 'a second', curve('samples/s')));
  if (figures.loss !== undefined)
    all.push(tile('Loss', figure(figures.loss), '', tested(figures), curve('loss')));
  if (figures.messages_per_s !== undefined) {
    all.push(tile('Messages', ...split(short(figures.messages_per_s)), 'handled a second'));
    all.push(tile('Traffic', ...split(bytes(figures.bytes_per_s)), 'a second'));
  }
  if (isOneOfSeveral(run))
    all.push(tile('Attempt', count(run.attempt), '', `goodput ${figure(100 * run.goodput)} %`));
  all.push(
    tile(
      'Records',
      ...split(short(run.records)),
      [
        overwritten > 0 ? `${short(overwritten)} older ones overwritten` : 'nothing overwritten',
        lost > 0 ? `, ${count(lost)} lost` : '',
      ].join(''),
    ),
  );
  return all;
}

/** Whether the run has been supervised, and another attempt at it is known. */
const isOneOfSeveral = (run) => run.attempt > 1 || run.attempts.length > 1;

function attempts(run) {
  return table(
    [
      {title: 'Attempt', of: (one) => count(one.attempt), numeric: true},
      {title: 'From step', of: (one) => (one.from_step === null ? '-' : count(one.from_step)), numeric: true},
      {title: 'Last step', of: (one) => count(one.last_step), numeric: true},
      {title: 'Ended by', of: (one) => one.ended_by || '-', class: 'words'},
    ],
    run.attempts,
  );
}

const stateKinds = {running: 'good', clean: 'calm', failed: 'bad', gone: 'bad'};
const stateOf = (one, run) => ({ended: 'clean', failed: 'failed'})[one.end] ?? (run.live ? 'running' : 'gone');

function processes(run) {
  return table(
    [
      {title: 'Process', of: (one) => `${one.host}:${one.pid}`},
      {title: 'Node', of: (one) => (one === run.processes[run.master_process] ? 'master' : one.node), numeric: true},
      {
        title: 'State',
        of: (one) => el('span', {class: `pill ${stateKinds[stateOf(one, run)]}`}, stateOf(one, run)),
      },
      {title: 'Records', of: (one) => count(one.records), numeric: true},
      {title: 'Overwritten', of: (one) => count(one.overwritten), numeric: true},
      {title: 'Lost', of: (one) => count(one.torn + one.contents_lost), numeric: true},
      {
        title: 'Clock',
        of: (one) =>
          !one.clock_aligned ? 'not aligned' : one.clock_error_ns ? `\u00b1 ${time(one.clock_error_ns)}` : 'reference',
        numeric: true,
      },
    ],
    run.processes,
  );
}

/** Bytes under way on links; a link's credit is 64 MiB. */
function credits(topology, run) {
  const nameOf = (i) => (run.processes[i] ? `${run.processes[i].host}:${run.processes[i].pid}` : `process ${i}`);
  const limit = 64 * 2 ** 20;
  return table(
    [
      {title: 'From', of: (one) => nameOf(one.process)},
      {title: 'To', of: (one) => (one.to_process === undefined ? `node ${one.node}` : nameOf(one.to_process))},
      {
        title: 'Under way',
        of: (one) =>
          el(
            'span',
            {class: 'meter-cell'},
            el('meter', {
              min: 0,
              max: limit,
              high: limit * 0.7,
              optimum: 0,
              value: one.under_way,
              'aria-label': 'credit in use',
            }),
            bytes(one.under_way),
          ),
        numeric: true,
      },
      {title: 'Waits', of: (one) => count(one.waits), numeric: true},
    ],
    topology.credits,
  );
}

const legend = () =>
  el(
    'span',
    {class: 'legend', 'aria-hidden': 'true'},
    [
      ['0', 'no queue'],
      ['1', 'queues'],
      ['2', 'piles up'],
    ].map(([heat, text]) => el('span', {}, el('i', {class: `swatch heat-${heat}`}), text)),
    el('span', {}, el('i', {class: 'swatch waiting'}), 'waits long'),
  );

export function createOverview(root) {
  const verdict = el('div', {});
  const figures = el('div', {class: 'tiles'});
  const drawing = el('div', {class: 'topology-place'});
  const lines = el('div', {class: 'curves'});
  const below = el('div', {class: 'below'});
  root.append(
    verdict,
    figures,
    el(
      'div',
      {class: 'columns'},
      el('div', {class: 'below'}, card('Actors', legend(), drawing), below),
      card('Curves', null, lines),
    ),
  );
  let topology = null;
  let blocked = null;
  let drawn = '';

  const draw = () => {
    if (!topology || drawing.clientWidth === 0 || drawing.contains(document.activeElement)) return;
    const text = JSON.stringify([topology, blocked.waits, drawing.clientWidth]);
    if (text === drawn) return;
    drawn = text;
    drawing.replaceChildren(drawTopology(topology, blocked, Math.max(drawing.clientWidth, 420)));
  };
  new ResizeObserver(draw).observe(drawing);

  return {
    async update(run, changed) {
      [blocked, topology] = await Promise.all([
        get('/api/blocked'),
        get('/api/topology', {recent_ns: run.live ? recent : ''}),
      ]);
      verdict.replaceChildren(banner(blocked, run));
      draw();
      if (!changed) return;
      const [{curves}, steps] = await Promise.all([get('/api/curves'), get('/api/steps', {last: 1})]);
      figures.replaceChildren(...tiles(run, steps, curves));
      lines.replaceChildren(...(curves.length > 0 ? curves.map(chart) : [empty('No figures are recorded yet.')]));
      below.replaceChildren(
        ...[
          card(
            'Processes',
            el('span', {class: 'muted'}, run.mode ? `recorded in mode ${run.mode}` : ''),
            processes(run),
          ),
          isOneOfSeveral(run) && card('Attempts', null, attempts(run)),
          topology.credits.length > 0 && card('Credit of links', null, credits(topology, run)),
          run.warnings?.length > 0 &&
            card(
              'Warnings',
              null,
              el(
                'ul',
                {class: 'warnings'},
                run.warnings.map((text) => el('li', {}, text)),
              ),
            ),
        ].filter(Boolean),
      );
    },
  };
}
