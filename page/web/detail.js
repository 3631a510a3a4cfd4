// One message: when it was sent, came, was taken up and done; what led to it, what came of it, what it held.

import {get, hashOf} from '/api.js';
import {el, empty, table, withTip} from '/dom.js';
import {bytes, count, figure, moment, time} from '/format.js';

const stages = [
  ['travel', 'on the way', (m) => [m.sent_ns, m.arrived_ns]],
  ['queued', 'queued', (m) => [m.arrived_ns, m.begin_ns]],
  ['worked', 'handled', (m) => [m.begin_ns, m.end_ns]],
];

function timeline(message) {
  const whole = Math.max(1, message.end_ns - message.sent_ns);
  return [
    el(
      'div',
      {class: 'stages', 'aria-hidden': 'true'},
      stages.map(([kind, text, of]) => {
        const [begin, end] = of(message);
        return withTip(el('i', {class: kind, style: {'flex-grow': String((end - begin) / whole)}}), () => [
          text,
          time(end - begin),
        ]);
      }),
    ),
    el(
      'dl',
      {class: 'stage-times'},
      stages.map(([kind, text, of]) => {
        const [begin, end] = of(message);
        return el('div', {}, el('dt', {}, el('i', {class: `swatch ${kind}`}), text), el('dd', {}, time(end - begin)));
      }),
    ),
  ];
}

function facts(message) {
  const rows = [
    ['From', el('a', {href: hashOf('messages', '', {actor: message.from})}, message.from)],
    ['To', el('a', {href: hashOf('messages', '', {actor: message.actor})}, message.actor)],
    ['Step', message.step ? el('a', {href: hashOf('steps', message.step)}, count(message.step)) : 'outside of any'],
    ['Size', bytes(message.bytes)],
    ['Sent', moment(message.sent_ns)],
    ['Done', moment(message.end_ns)],
    ['Is', message.flags.length > 0 ? message.flags.join(', ') : 'one-way'],
  ];
  return el(
    'dl',
    {class: 'facts'},
    rows.map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]),
  );
}

function links(rows, query, from) {
  return el(
    'ol',
    {class: 'links'},
    rows.map((row) =>
      el(
        'li',
        {},
        el(
          'a',
          {href: hashOf('messages', row.id, query), class: 'link-row'},
          el('span', {class: 'link-type'}, row.type ?? row.kind),
          el('span', {class: 'link-name'}, row.message),
          el(
            'span',
            {class: 'link-when'},
            row.begin_ns !== undefined &&
              from !== undefined &&
              `${row.begin_ns < from ? '\u2212' : '+'}${time(Math.abs(row.begin_ns - from))}`,
          ),
          el('span', {class: 'link-to muted'}, row.actor ? `\u2192 ${row.actor}` : 'not recorded any more'),
        ),
      ),
    ),
  );
}

const number = (x) => (typeof x === 'number' ? figure(x) : (x ?? ''));

function contents(content) {
  const hasNumbers = content.parts.some((part) => part.numbers !== undefined);
  return [
    table(
      [
        {title: 'Part', of: (part) => part.name},
        {title: 'Type', of: (part) => part.type},
        {title: 'Shape', of: (part) => `${count(part.rows)} \u00d7 ${count(part.cols)}`, numeric: true},
        {title: 'Digest', of: (part) => part.digest, class: 'mono'},
      ],
      content.parts,
    ),
    hasNumbers &&
      table(
        [
          {title: 'Part', of: (part) => part.name},
          {title: 'Min', of: (part) => number(part.min), numeric: true},
          {title: 'Mean', of: (part) => number(part.mean), numeric: true},
          {title: 'Max', of: (part) => number(part.max), numeric: true},
          {
            title: 'NaN',
            of: (part) => el('span', {class: part.nan > 0 ? 'alarm' : ''}, count(part.nan)),
            numeric: true,
          },
          {
            title: 'Inf',
            of: (part) => el('span', {class: part.inf > 0 ? 'alarm' : ''}, count(part.inf)),
            numeric: true,
          },
          {title: 'Zero', of: (part) => count(part.zero), numeric: true},
        ],
        content.parts.filter((part) => part.numbers !== undefined),
      ),
    !hasNumbers && el('p', {class: 'muted'}, 'Digests only: numbers are kept with --trace payload.'),
  ];
}

function body(what, query) {
  const message = what.handled;
  const since = message?.begin_ns;
  const section = (title, ...children) => el('section', {}, el('h3', {}, title), children);
  return [
    message
      ? [timeline(message), facts(message)]
      : el(
          'p',
          {class: 'empty'},
          what.left_ns !== undefined || what.came_ns !== undefined
            ? 'It was sent, and has not been handled as far as is recorded.'
            : 'This message is not recorded (any more).',
        ),
    what.answers && section('Answers', links([{...what.answers, actor: message?.from}], query)),
    section('Causes', what.causes?.length > 0 ? links(what.causes, query, since) : empty('No message led to it.')),
    section(
      `Effects${what.effects_count > 0 ? ` (${count(what.effects_count)})` : ''}`,
      what.effects.length > 0 ? links(what.effects, query, since) : empty('Nothing that is recorded came of it.'),
    ),
    what.ranges?.length > 0 &&
      section(
        'Work',
        table(
          [
            {title: 'Range', of: (range) => range.name},
            {title: 'Time', of: (range) => time(range.end_ns - range.begin_ns), numeric: true},
          ],
          what.ranges,
        ),
      ),
    what.content && section('Contents', contents(what.content)),
  ];
}

let shown = '';

/** Shows message `id` in `place`; none: hides it. */
export async function showDetail(place, id, query) {
  const key = JSON.stringify([id, query]);
  if (key === shown && place.isConnected && !place.hidden) return;
  shown = key;
  place.hidden = !id;
  if (!id) return place.replaceChildren();
  const close = el('a', {class: 'button icon', href: hashOf('messages', '', query), 'aria-label': 'Close'}, '\u00d7');
  try {
    const what = await get('/api/message', {id});
    if (shown !== key) return;
    place.replaceChildren(
      el(
        'header',
        {},
        el('div', {}, el('h2', {}, what.handled?.type ?? 'message'), el('span', {class: 'muted mono'}, what.message)),
        close,
      ),
      ...[body(what, query)].flat(Infinity).filter(Boolean),
    );
    place.scrollTop = 0;
  } catch (error) {
    place.replaceChildren(el('header', {}, el('h2', {}, id), close), empty(error.message));
  }
}
