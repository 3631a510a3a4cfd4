// How much goes from which actor to which: a matrix whose cells lead to their messages, and the same as a table by
// type.

import {get, hashOf} from '/api.js';
import {card, el, empty, table, withTip} from '/dom.js';
import {bytes, count, short, time} from '/format.js';

const measures = {
  bytes: {title: 'Bytes', of: (x) => x.bytes, text: bytes},
  messages: {title: 'Messages', of: (x) => x.messages, text: short},
  latency: {title: 'Mean latency', of: (x) => (x.messages ? x.latency / x.messages : 0), text: time},
};

/** Sums by sender and receiver, of one type or of all. */
function cellsOf(traffic, type) {
  const cells = new Map();
  for (const one of traffic.cells) {
    if (type && one.type !== type) continue;
    const key = JSON.stringify([one.from, one.to]);
    const sum = cells.get(key) ?? {from: one.from, to: one.to, messages: 0, bytes: 0, latency: 0};
    sum.messages += one.messages;
    sum.bytes += one.bytes;
    sum.latency += one.latency_ns;
    cells.set(key, sum);
  }
  return cells;
}

function matrix(traffic, type, measure) {
  const cells = cellsOf(traffic, type);
  const most = Math.max(1, ...[...cells.values()].map(measure.of));
  const talks = (name, side) => [...cells.values()].some((cell) => cell[side] === name);
  const senders = traffic.actors.filter((name) => talks(name, 'from'));
  const receivers = traffic.actors.filter((name) => talks(name, 'to'));
  if (cells.size === 0) return empty('No messages are recorded.');
  const cellOf = (from, to) => {
    const cell = cells.get(JSON.stringify([from, to]));
    if (!cell) return el('td', {class: 'none'}, el('span', {class: 'hidden'}, 'none'));
    const share = Math.sqrt(measure.of(cell) / most);
    const link = el(
      'a',
      {
        href: hashOf('messages', '', {from, to, type}),
        style: {'--share': `${Math.round(6 + share * 56)}%`},
        'aria-label': `${from} to ${to}: ${count(cell.messages)} messages, ${bytes(cell.bytes)}`,
      },
      measure.text(measure.of(cell)),
    );
    return el(
      'td',
      {},
      withTip(link, () => [
        `${from} \u2192 ${to}`,
        `${count(cell.messages)} messages, ${bytes(cell.bytes)}`,
        `${time(cell.latency / cell.messages)} mean latency`,
        'click: its messages',
      ]),
    );
  };
  return el(
    'div',
    {class: 'scroll'},
    el(
      'table',
      {class: 'matrix'},
      el('caption', {}, 'from the row to the column'),
      el(
        'thead',
        {},
        el(
          'tr',
          {},
          el('td', {}),
          receivers.map((to) => el('th', {scope: 'col'}, to)),
        ),
      ),
      el(
        'tbody',
        {},
        senders.map((from) =>
          el(
            'tr',
            {},
            el('th', {scope: 'row'}, from),
            receivers.map((to) => cellOf(from, to)),
          ),
        ),
      ),
    ),
  );
}

const flows = (traffic, type) =>
  table(
    [
      {title: 'From', of: (x) => x.from},
      {title: 'To', of: (x) => x.to},
      {
        title: 'Type',
        of: (x) => el('a', {href: hashOf('messages', '', {from: x.from, to: x.to, type: x.type})}, x.type),
      },
      {title: 'Messages', of: (x) => count(x.messages), numeric: true},
      {title: 'Bytes', of: (x) => bytes(x.bytes), numeric: true},
      {title: 'On the way', of: (x) => time(x.wire_ns / x.messages), numeric: true},
      {title: 'Queued', of: (x) => time(x.queued_ns / x.messages), numeric: true},
      {title: 'Worked', of: (x) => time(x.worked_ns / x.messages), numeric: true},
      {title: 'Longest', of: (x) => time(x.longest_ns), numeric: true},
    ],
    traffic.cells
      .filter((x) => !type || x.type === type)
      .sort((a, b) => b.bytes - a.bytes)
      .slice(0, 200),
  );

export function createTraffic(root) {
  let traffic = null;
  let measure = 'bytes';
  const type = el('select', {'aria-label': 'Type of message'});
  const choices = Object.entries(measures).map(([name, {title}]) =>
    el('button', {type: 'button', 'data-measure': name}, title),
  );
  const place = el('div', {});
  const list = el('div', {});
  root.append(
    card(
      'Traffic',
      el(
        'div',
        {class: 'controls'},
        el('div', {class: 'segments', role: 'group', 'aria-label': 'What the cells show'}, choices),
        type,
      ),
      place,
    ),
    card('By type', el('span', {class: 'muted'}, 'times are means; most bytes first'), list),
  );

  const draw = () => {
    for (const one of choices) one.setAttribute('aria-pressed', String(one.dataset.measure === measure));
    if (traffic === null) return; // chosen while the figures are on their way
    place.replaceChildren(matrix(traffic, type.value, measures[measure]));
    list.replaceChildren(flows(traffic, type.value));
  };
  for (const one of choices)
    one.addEventListener('click', () => {
      measure = one.dataset.measure;
      draw();
    });
  type.addEventListener('change', draw);

  return {
    async update(run, changed) {
      if (!changed) return;
      traffic = await get('/api/traffic');
      if (place.contains(document.activeElement)) return; // a cell that somebody is at stays
      const chosen = type.value;
      const types = [...new Set(traffic.cells.map((x) => x.type))].sort();
      type.replaceChildren(
        el('option', {value: ''}, 'all types'),
        ...types.map((name) => el('option', {value: name}, name)),
      );
      type.value = types.includes(chosen) ? chosen : '';
      draw();
    },
  };
}
