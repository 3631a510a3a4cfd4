// Which actor waits on which, for what, and for how long; first the verdict.

import {get, hashOf} from '/api.js';
import {card, el, empty, table} from '/dom.js';
import {count, time} from '/format.js';
import {banner} from '/verdict.js';

const actorLink = (name) => el('a', {href: hashOf('messages', '', {actor: name})}, name);

function waits(blocked) {
  return table(
    [
      {title: 'Who', of: (x) => actorLink(x.who)},
      {title: 'waits on', of: (x) => (x.on ? actorLink(x.on) : '')},
      {title: 'for', of: (x) => (x.id ? el('a', {href: hashOf('messages', x.id)}, x.for) : x.for)},
      {title: 'State', of: (x) => x.state ?? ''},
      {title: 'Step', of: (x) => (x.step ? count(x.step) : ''), numeric: true},
      {title: 'Waiting', of: (x) => time(x.waiting_ns), numeric: true},
    ],
    [...blocked.waits].sort((a, b) => b.waiting_ns - a.waiting_ns),
  );
}

function requests(topology) {
  const open = topology.actors.flatMap((one) => one.open.map((request) => ({who: one.actor, ...request})));
  if (open.length === 0) return empty('No request is open.');
  return table(
    [
      {title: 'Who', of: (x) => actorLink(x.who)},
      {title: 'asked', of: (x) => actorLink(x.peer)},
      {title: 'Request', of: (x) => el('a', {href: hashOf('messages', x.id)}, x.type)},
      {title: 'Step', of: (x) => count(x.step), numeric: true},
      {title: 'Open for', of: (x) => time(x.waited_ns), numeric: true},
    ],
    open.sort((a, b) => b.waited_ns - a.waited_ns).slice(0, 500),
  );
}

export function createBlocked(root) {
  let drawn = '';
  return {
    async update(run) {
      const [blocked, topology] = await Promise.all([get('/api/blocked'), get('/api/topology', {recent_ns: 1e9})]);
      const text = JSON.stringify([blocked, topology, run.live]);
      if (text === drawn || root.contains(document.activeElement)) return;
      drawn = text;
      root.replaceChildren(
        ...[
          banner({...blocked, waits: []}, run),
          blocked.details?.length > 0 &&
            card(
              'What is known',
              null,
              el(
                'ul',
                {class: 'details'},
                blocked.details.map((line) => el('li', {}, line)),
              ),
            ),
          blocked.cycle?.length > 0 &&
            card(
              'Cycle',
              null,
              el(
                'p',
                {class: 'cycle'},
                [...blocked.cycle, blocked.cycle[0]].map((name, i) => [
                  i > 0 && el('span', {class: 'muted'}, ' waits for '),
                  actorLink(name),
                ]),
              ),
            ),
          card(
            'Waits',
            el('span', {class: 'muted'}, run.live ? 'now' : 'at the end of the recording'),
            blocked.waits?.length > 0 ? waits(blocked) : empty('No actor waits.'),
          ),
          card('Open requests', el('span', {class: 'muted'}, 'asked, and not answered yet'), requests(topology)),
        ].filter(Boolean),
      );
    },
  };
}
