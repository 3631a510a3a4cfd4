// Why steps take as long as they do: all of them as bars, one more closely, and what the critical paths of all are made of.

import {get, hashOf} from '/api.js';
import {card, el, empty, muted, table} from '/dom.js';
import {count, percent, time} from '/format.js';
import {strip} from '/strip.js';
import {drawStudy, whoOf} from '/study.js';

const shownSteps = 200;

const statistics = (paths) =>
  table(
    [
      {title: 'What', of: (x) => x.what},
      {title: 'Who', of: whoOf},
      {title: 'p50', of: (x) => (x.p50_ns > 0 ? time(x.p50_ns) : '\u2013'), numeric: true},
      {title: 'p95', of: (x) => (x.p95_ns > 0 ? time(x.p95_ns) : '\u2013'), numeric: true},
      {
        title: 'Share',
        of: (x) =>
          el(
            'span',
            {class: 'share', style: {'--share': `${((x.sum_ns / paths.sum_ns) * 100).toFixed(1)}%`}},
            percent(x.sum_ns / paths.sum_ns),
          ),
        numeric: true,
      },
      {
        title: 'Takes longest in',
        of: (x) => (x.largest_in > 0 ? `${count(x.largest_in)} of ${count(paths.steps)}` : ''),
        numeric: true,
      },
    ],
    paths.parts.slice(0, 20),
  );

const nameOf = (one) => ({step: one.step, trainer: one.trainer ?? ''});
const isSame = (a, b) => a.step === b.step && a.trainer === b.trainer;

function summary(steps) {
  if (steps.recorded === 0) return '';
  return `${count(steps.recorded)} recorded, median ${time(steps.p50_ns)}, p95 ${time(steps.p95_ns)}`;
}

export function createSteps(root) {
  let chosen = {step: 0, trainer: ''};
  let isFollowing = true; // no step was asked for: the newest is shown
  let steps = null;
  let shown = null;
  const bars = el('div', {});
  const note = muted('');
  const study = el('div', {class: 'study'});
  const over = el('div', {});
  root.append(
    card('Steps', note, bars, el('p', {class: 'muted small'}, 'Each bar is a step. Click one, or use the arrow keys.')),
    study,
    over,
  );

  const drawStrip = () => {
    const had = bars.contains(document.activeElement);
    bars.replaceChildren(steps.recorded > 0 ? strip(steps, chosen) : empty('No step is recorded as a whole yet.'));
    if (had) bars.querySelector('.chosen')?.focus();
  };

  bars.addEventListener('keydown', (e) => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[e.key];
    if (!by || !steps) return;
    e.preventDefault();
    const at = steps.steps.findIndex((one) => isSame(nameOf(one), chosen));
    const next = steps.steps[Math.max(0, Math.min(steps.steps.length - 1, at + by))];
    if (!next) return;
    chosen = nameOf(next); // the next key counts from here
    drawStrip();
    location.replace(hashOf('steps', next.step, {trainer: next.trainer}));
  });

  async function showStep(run) {
    if (!chosen.step || (shown && isSame(shown, chosen))) return;
    const wanted = chosen;
    try {
      const step = await get('/api/step', wanted);
      study.replaceChildren(...drawStudy(step, wanted.trainer, run));
      shown = wanted;
    } catch (error) {
      study.replaceChildren(card(`Step ${count(wanted.step)}`, null, empty(error.message)));
      shown = null;
    }
  }

  return {
    route({item, query}) {
      isFollowing = item === '';
      if (!isFollowing) chosen = {step: Number(item), trainer: query.trainer ?? ''};
    },
    async update(run, changed) {
      if (!changed) return;
      steps = await get('/api/steps', {last: shownSteps});
      const newest = steps.steps.at(-1);
      if (isFollowing && newest && (!chosen.step || !study.contains(document.activeElement))) chosen = nameOf(newest);
      note.textContent = summary(steps);
      drawStrip();
      await showStep(run);
      const paths = await get('/api/paths', {last: shownSteps});
      const about = muted('what critical paths are made of');
      over.replaceChildren(...(paths.parts.length > 0 ? [card('Over all these steps', about, statistics(paths))] : []));
    },
  };
}
