// A list of any length, of which only the rows that can be seen are there, and were asked for: in blocks, as they come
// into sight.

import {el} from '/dom.js';

const rowHeight = 30;
const headHeight = 34;
const blockSize = 100;
const blocksKept = 60;
const tallest = 8e6; // px; browsers have a limit to how tall an element may be
const settled = 40; // ms; what is only scrolled past is not asked for

/** Where rows lie. A list longer than an element can be tall has a scroll bar that is coarser than its rows. */
class Layout {
  constructor(box) {
    this.box = box;
    this.length = 0;
  }

  get isWhole() {
    return this.length * rowHeight <= tallest;
  }
  get height() {
    return Math.min(this.length * rowHeight, tallest);
  }
  /** Rows that fit below the head, the last one in part. */
  get fit() {
    return Math.max(1, (this.box.clientHeight - headHeight) / rowHeight);
  }
  get visible() {
    return Math.ceil(this.fit);
  }
  get range() {
    return this.height + headHeight - this.box.clientHeight;
  }
  get first() {
    const last = Math.max(0, this.length - 1);
    if (this.isWhole) return Math.min(Math.floor(this.box.scrollTop / rowHeight), last);
    return Math.min(Math.ceil((this.box.scrollTop / this.range) * Math.max(0, this.length - this.fit)), last);
  }

  topOf(i) {
    return this.isWhole ? i * rowHeight : this.box.scrollTop + (i - this.first) * rowHeight;
  }
  scrollTo(i) {
    this.box.scrollTop = this.isWhole ? i * rowHeight : (i / Math.max(1, this.length - this.fit)) * this.range;
  }
}

export class List {
  /**
   * `titles` of columns; `load(cursor, limit)` promises {total, rows}; `cells(row)` are its texts, `href(row)` where it
   * leads, `isOpen(row)` whether it is shown elsewhere; `onLength(total)` hears how many there are.
   */
  constructor({titles, load, cells, href, isOpen, onLength, label}) {
    Object.assign(this, {load, cells, href, isOpen, onLength});
    this.rows = el('div', {class: 'rows'});
    this.space = el('div', {class: 'space'}, this.rows);
    const head = titles.map((title) => el('span', {role: 'columnheader'}, title));
    this.node = el(
      'div',
      {class: 'list', tabindex: 0, role: 'grid', 'aria-label': label, 'aria-colcount': titles.length},
      el('div', {class: 'list-head', role: 'row'}, head),
      this.space,
    );
    this.layout = new Layout(this.node);
    this.blocks = new Map(); // place in the list -> rows; undefined: asked for
    this.cursor = -1; // the row that the keyboard is at
    this.isLoaded = false;
    this.turn = 0; // answers to questions of an earlier one are not wanted any more
    this.node.addEventListener('scroll', () => this.draw());
    this.node.addEventListener('keydown', (e) => this.press(e));
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  /** The first row; undefined for an empty list. */
  get newest() {
    return this.blocks.get(0)?.[0];
  }
  /** Whether somebody has gone into the list. */
  get isRead() {
    return this.node.scrollTop > rowHeight || this.cursor >= 0;
  }

  toTop() {
    this.cursor = -1;
    this.node.scrollTop = 0;
  }

  /** Asks anew; what was there stays until the answer comes. Gives the answer. */
  async reload() {
    this.turn += 1;
    const turn = this.turn;
    try {
      const answer = await this.load(0, blockSize);
      if (turn !== this.turn) return answer;
      this.blocks = new Map([[0, answer.rows]]);
      this.setLength(answer.total);
      this.draw();
      return answer;
    } catch (error) {
      if (turn === this.turn) this.fail(error);
      return null;
    }
  }

  rowAt(i) {
    return this.blocks.get(Math.floor(i / blockSize))?.[i % blockSize];
  }

  setLength(length) {
    this.isLoaded = true;
    this.layout.length = length;
    this.space.style.height = `${Math.max(this.layout.height, 1)}px`;
    this.node.setAttribute('aria-rowcount', String(length));
    this.onLength(length);
  }

  fail(error) {
    this.blocks = new Map();
    this.setLength(0);
    this.rows.replaceChildren(el('p', {class: 'empty'}, error.message));
  }

  drawRow(i) {
    const row = this.rowAt(i);
    const href = row && this.href(row);
    const node = el(
      href ? 'a' : 'div',
      {class: 'row', role: 'row', 'aria-rowindex': i + 1, tabindex: -1, href},
      row ? this.cells(row).map((text) => el('span', {role: 'gridcell'}, text)) : el('span', {class: 'waiting-row'}),
    );
    node.style.transform = `translateY(${this.layout.topOf(i)}px)`;
    node.classList.toggle('open', Boolean(row) && this.isOpen(row));
    node.classList.toggle('cursor', i === this.cursor);
    return node;
  }

  draw() {
    const {first, visible, length} = this.layout;
    const last = Math.min(length, first + visible + 2);
    if (!this.isLoaded) return;
    if (length === 0) {
      this.rows.replaceChildren(el('p', {class: 'empty'}, 'Nothing matches.'));
      return;
    }
    this.rows.replaceChildren(...Array.from({length: last - first}, (_, i) => this.drawRow(first + i)));
    const wanted = [];
    for (let block = Math.floor(first / blockSize); block * blockSize < last; block += 1) wanted.push(block);
    for (const block of wanted) if (!this.blocks.has(block)) this.askFor(block);
    if (this.blocks.size > blocksKept)
      this.blocks = new Map([...this.blocks].filter(([block]) => wanted.includes(block)));
  }

  askFor(block) {
    const turn = this.turn;
    this.blocks.set(block, undefined);
    setTimeout(async () => {
      const {first, visible} = this.layout;
      if (turn !== this.turn) return;
      if ((block + 1) * blockSize <= first || block * blockSize > first + visible + 2) {
        this.blocks.delete(block);
        return;
      }
      try {
        const answer = await this.load(block * blockSize, blockSize);
        if (turn !== this.turn) return;
        this.blocks.set(block, answer.rows);
        if (answer.total !== this.layout.length) this.setLength(answer.total);
        this.draw();
      } catch (error) {
        if (turn === this.turn) this.fail(error);
      }
    }, settled);
  }

  press(e) {
    const {visible, length} = this.layout;
    const row = this.rowAt(this.cursor);
    if (e.key === 'Enter' && row && this.href(row)) location.hash = this.href(row);
    const by = {ArrowDown: 1, ArrowUp: -1, PageDown: visible - 1, PageUp: 1 - visible, Home: -Infinity, End: Infinity}[
      e.key
    ];
    if (by === undefined || length === 0) return;
    e.preventDefault();
    this.cursor = Math.max(0, Math.min(length - 1, this.cursor + by));
    const isAbove = this.cursor < this.layout.first;
    const isBelow = this.cursor > this.layout.first + visible - 2;
    if (isAbove) this.layout.scrollTo(this.cursor);
    if (isBelow) this.layout.scrollTo(Math.max(0, this.cursor - visible + 2));
    this.draw();
  }
}
