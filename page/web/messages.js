// All messages, with a filter; beside them the one that is open.

import {get, hashOf} from '/api.js';
import {showDetail} from '/detail.js';
import {card, el} from '/dom.js';
import {bytes, count, moment, time} from '/format.js';
import {List} from '/list.js';

const defaults = {order: 'newest', kind: 'handled'};
const orders = {
  newest: 'newest first',
  oldest: 'oldest first',
  slowest: 'slowest first',
  queued: 'longest queued first',
  largest: 'largest first',
};
const kinds = {
  handled: 'messages',
  released: 'released answers',
  range: 'ranges of work',
  step: 'steps',
  collective: 'collectives',
  drop: 'drops',
  spawn: 'actors begun',
  exit: 'actors ended',
  timer: 'timers',
  'credit wait': 'waits for credit',
  'link down': 'links lost',
  stalled: 'stalls',
  'device range': 'work of devices',
  checkpoint: 'checkpoints',
  all: 'everything',
};

/** The fields of the filter, by the names that they have in addresses and for the server. */
function filterFields() {
  const input = (name, label, attributes) =>
    el(
      'label',
      {},
      el('span', {}, label),
      el('input', {name, autocomplete: 'off', spellcheck: 'false', ...attributes}),
    );
  const select = (name, label, options) =>
    el(
      'label',
      {},
      el('span', {}, label),
      el(
        'select',
        {name},
        Object.entries(options).map(([value, text]) => el('option', {value}, text)),
      ),
    );
  return [
    input('text', 'Search', {type: 'search', placeholder: 'name, type or trainer 1 #417'}),
    select('kind', 'Show', kinds),
    select('order', 'Order', orders),
    input('actor', 'Actor', {list: 'actors', placeholder: 'any'}),
    input('from', 'From', {list: 'actors', placeholder: 'any'}),
    input('to', 'To', {list: 'actors', placeholder: 'any'}),
    input('type', 'Type', {list: 'types', placeholder: 'any'}),
    input('first_step', 'From step', {inputmode: 'numeric', size: 7}),
    input('last_step', 'To step', {inputmode: 'numeric', size: 7}),
    input('min_bytes', 'Min bytes', {inputmode: 'numeric', size: 9}),
    input('min_latency_us', 'Min us', {inputmode: 'numeric', size: 8}),
  ];
}

const columns = ['Begin', 'From', '', 'To', 'Type', 'Step', 'Bytes', 'Queued', 'Worked', 'Latency'];

function cells(row) {
  const isMessage = row.kind === 'handled';
  return [
    moment(row.begin_ns),
    row.from ?? '',
    row.from ? '\u2192' : '',
    row.actor,
    [
      row.type ?? row.kind,
      row.flags?.includes('parked') && el('span', {class: 'tag'}, 'parked'),
      row.flags?.includes('refused') && el('span', {class: 'tag bad'}, 'refused'),
    ],
    row.step ? count(row.step) : '',
    isMessage ? bytes(row.bytes) : '',
    isMessage ? time(row.begin_ns - row.arrived_ns) : '',
    time(row.end_ns - row.begin_ns),
    isMessage ? time(row.end_ns - row.sent_ns) : '',
  ];
}

/** `onChange` hears what is chosen, when somebody has stopped typing. */
function createFilter(onChange) {
  const form = el(
    'form',
    {class: 'filters', role: 'search', 'aria-label': 'Filter'},
    filterFields(),
    el(
      'button',
      {
        type: 'button',
        class: 'button',
        onclick: () => {
          location.hash = '#/messages';
        },
      },
      'Clear',
    ),
  );
  let typing = 0;
  form.addEventListener('submit', (e) => e.preventDefault());
  form.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      const chosen = Object.entries(Object.fromEntries(new FormData(form)));
      onChange(Object.fromEntries(chosen.filter(([name, value]) => value !== (defaults[name] ?? ''))));
    }, 200);
  });
  const show = (query) => {
    for (const field of form.elements)
      if (field.name && field !== document.activeElement) field.value = query[field.name] ?? defaults[field.name] ?? '';
  };
  return {form, show};
}

/** The filter as the server wants it. */
function asked({min_latency_us: us, ...rest}) {
  return {...rest, min_latency_ns: us ? Math.round(Number(us) * 1000) || us : ''};
}

const suggest = (list, values) => {
  if (list.childElementCount !== values.length) list.replaceChildren(...values.map((value) => el('option', {value})));
};

export function createMessages(root) {
  let query = {};
  let open = '';
  let until = ''; // holds the list still while somebody reads in it
  let loaded = Promise.resolve(null);

  const filter = createFilter((chosen) => location.replace(hashOf('messages', open, chosen)));
  const actors = el('datalist', {id: 'actors'});
  const types = el('datalist', {id: 'types'});
  const total = el('span', {class: 'muted', role: 'status'});
  const detail = el('aside', {class: 'detail', 'aria-label': 'The open message', hidden: true});
  const list = new List({
    titles: columns,
    label: 'Messages',
    cells,
    href: (row) => (row.id ? hashOf('messages', row.id, query) : null),
    isOpen: (row) => Boolean(row.id) && row.id === open,
    onLength: (length) => {
      total.textContent = `${count(length)} match`;
    },
    load: async (cursor, limit) => {
      const answer = await get('/api/messages', {...asked(query), until, cursor, limit});
      return {total: answer.total, rows: answer.messages, generation: answer.generation};
    },
  });
  root.append(
    actors,
    types,
    card('Messages', total, filter.form),
    el('div', {class: 'split'}, el('div', {class: 'card list-card'}, list.node), detail),
  );

  return {
    route({item, query: next}) {
      const changed = JSON.stringify(next) !== JSON.stringify(query);
      query = next;
      open = item;
      filter.show(query);
      if (changed) {
        until = '';
        list.toTop();
        loaded = list.reload();
      }
      showDetail(detail, open, query);
      list.draw();
    },
    async update(run, changed) {
      suggest(actors, run.actors);
      suggest(types, run.types);
      const last = await loaded;
      if (last && (!changed || last.generation === run.generation)) return;
      if (last && (list.isRead || open !== '')) {
        if (run.live && !until && (query.order ?? 'newest') === 'newest') until = list.newest?.begin_ns ?? '';
        return;
      }
      until = '';
      loaded = list.reload();
      await loaded;
    },
  };
}
