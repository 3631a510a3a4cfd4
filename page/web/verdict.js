// The one line that comes first: whether the run continues, and if not, what blocks it.

import {el} from '/dom.js';

const signs = {good: '\u2713', calm: '\u2022', bad: '!'};

function kindOf(blocked, run) {
  if (blocked.moving) return 'good';
  if (blocked.class !== 'none') return 'bad';
  if (run.live) return 'good';
  return run.processes.every((one) => one.end === 'ended') ? 'calm' : 'bad';
}

export function banner(blocked, run) {
  const kind = kindOf(blocked, run);
  const isBlocked = kind === 'bad' && blocked.class !== 'none';
  const text = blocked.moving ? 'The run continues' : blocked.verdict;
  return el(
    'div',
    {class: `banner ${kind}`, role: 'status'},
    el('span', {class: 'sign', 'aria-hidden': 'true'}, signs[kind]),
    el(
      'div',
      {class: 'banner-text'},
      el('strong', {}, text),
      isBlocked && el('span', {class: 'muted'}, `class: ${blocked.class.replaceAll('_', ' ')}`),
    ),
    isBlocked &&
      blocked.waits?.length > 0 &&
      el('a', {class: 'button', href: '#/blocked'}, `${blocked.waits.length} waits`),
  );
}
