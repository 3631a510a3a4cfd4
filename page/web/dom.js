// Elements from code. Text is only ever set as text: names come from a run and may hold anything.

const svgNames = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [key, x] of Object.entries(value)) node.style.setProperty(key, x);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(
    ...children
      .flat(Infinity)
      .filter((x) => x !== undefined && x !== null && x !== false)
      .map((x) => (x instanceof Node ? x : document.createTextNode(String(x)))),
  );
  return node;
}

/** An HTML element; `on...` attributes are listeners, `style` sets properties. */
export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An SVG element. */
export const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(svgNames, tag), attributes, children);

const tip = () => document.getElementById('tip');

/** Shows lines beside the pointer or a focused element. */
function showTip(lines, x, y) {
  const box = tip();
  box.replaceChildren(...lines.map((line, i) => el(i === 0 ? 'strong' : 'span', {}, line)));
  box.hidden = false;
  const {width, height} = box.getBoundingClientRect();
  box.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
  box.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
}

/** Gives `node` a tooltip; `lines` makes its lines when it is shown. */
export function withTip(node, lines) {
  const hide = () => {
    tip().hidden = true;
  };
  node.addEventListener('pointermove', (e) => showTip(lines(), e.clientX, e.clientY));
  node.addEventListener('pointerleave', hide);
  node.addEventListener('focus', () => {
    if (!node.matches(':focus-visible')) return;
    const box = node.getBoundingClientRect();
    showTip(lines(), box.left, box.bottom - 10);
  });
  node.addEventListener('blur', hide);
  return node;
}

export const hideTip = () => {
  tip().hidden = true;
};

/** A card with a heading. */
export const card = (title, note, ...children) =>
  el('section', {class: 'card'}, el('div', {class: 'card-head'}, el('h2', {}, title), note), ...children);

/** A table of rows; columns are `{title, of(row), numeric, class}`, `of` gives a node or text. */
export function table(columns, rows, attributes = {}) {
  return el(
    'div',
    {class: 'scroll'},
    el(
      'table',
      attributes,
      el(
        'thead',
        {},
        el(
          'tr',
          {},
          columns.map((c) => el('th', {scope: 'col', class: c.numeric && 'number'}, c.title)),
        ),
      ),
      el(
        'tbody',
        {},
        rows.map((row) =>
          el(
            'tr',
            {},
            columns.map((c) =>
              el('td', {class: [c.numeric ? 'number' : '', c.class ?? ''].join(' ').trim() || null}, c.of(row)),
            ),
          ),
        ),
      ),
    ),
  );
}

export const empty = (text) => el('p', {class: 'empty'}, text);

export const muted = (text) => el('span', {class: 'muted'}, text);
