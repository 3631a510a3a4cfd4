// The page: shows one view at a time, as the address says, and asks for news every second while the run is live.

import {get, readRoute} from '/api.js';
import {el, hideTip} from '/dom.js';
import {short} from '/format.js';
import {createBlocked} from '/blocked.js';
import {createMessages} from '/messages.js';
import {createOverview} from '/overview.js';
import {openInPerfetto} from '/perfetto.js';
import {createSteps} from '/steps.js';
import {createTraffic} from '/traffic.js';

const views = {
  overview: {title: 'Overview', create: createOverview},
  steps: {title: 'Steps', create: createSteps},
  traffic: {title: 'Traffic', create: createTraffic},
  messages: {title: 'Messages', create: createMessages},
  blocked: {title: 'Blocked', create: createBlocked},
};

const main = document.getElementById('main');
const pauseButton = document.getElementById('pause');
let run = null;
let current = null; // {name, view}
let paused = false;
let timer = 0;

// -- theme ------------------------------------------------------------------------------------------------------------

const themeButton = document.getElementById('theme');
const prefersDark = matchMedia('(prefers-color-scheme: dark)');

function theme() {
  return localStorage.getItem('theme') ?? (prefersDark.matches ? 'dark' : 'light');
}

function showTheme() {
  document.documentElement.dataset.theme = theme();
  themeButton.textContent = theme() === 'dark' ? '\u2600' : '\u263e';
  themeButton.title = theme() === 'dark' ? 'Light' : 'Dark';
}

themeButton.addEventListener('click', () => {
  localStorage.setItem('theme', theme() === 'dark' ? 'light' : 'dark');
  showTheme();
});
prefersDark.addEventListener('change', showTheme);
showTheme();

// -- the run, and what is wrong with it -------------------------------------------------------------------------------

function showProblem(text) {
  const place = document.getElementById('problem');
  place.hidden = !text;
  place.textContent = text ?? '';
}

const exportTitles = {
  perfetto: 'Hands the trace to ui.perfetto.dev in a new window; it goes to no server.',
  download: 'The trace as Chrome JSON, for Perfetto without the internet.',
};

const states = {
  live: ['good', 'live'],
  paused: ['calm', 'paused'],
  clean: ['calm', 'ended'],
  failed: ['bad', 'failed'],
  gone: ['bad', 'ended abruptly'],
};

function stateOf(what) {
  if (what.live) return paused ? 'paused' : 'live';
  const ends = (what.processes ?? []).map((one) => one.end);
  return ends.includes('failed') ? 'failed' : ends.every((end) => end === 'ended') ? 'clean' : 'gone';
}

function showRun() {
  document.getElementById('run').textContent = run.run ? `run ${run.run}` : '';
  const state = document.getElementById('state');
  const [kind, text] = run.run ? states[stateOf(run)] : ['calm', 'no recording yet'];
  if (state.textContent !== text) state.textContent = text;
  state.className = `pill ${kind}`;
  pauseButton.hidden = !run.live;
  document.getElementById('perfetto').disabled = !run.run;
  const part =
    run.records > run.exported_most
      ? ` The newest ${short(run.exported_most)} of ${short(run.records)} records: troupe trace timeline writes all.`
      : '';
  for (const [id, text] of Object.entries(exportTitles)) document.getElementById(id).title = text + part;
  document.title = run.run ? `${views[current.name].title} \u00b7 Troupe` : 'Troupe';
  showProblem(run.problem);
}

/** Asks for the run; the view is told if there is anything new. */
async function look() {
  clearTimeout(timer);
  try {
    const next = await get('/api/run');
    const changed = run === null || next.generation !== run.generation || next.live !== run.live;
    run = next;
    showRun();
    if (run.run && current) await current.view.update(run, changed);
  } catch (error) {
    showProblem(error.message);
  }
  clearTimeout(timer);
  if (!paused && !document.hidden) timer = setTimeout(look, run?.live ? 1000 : 5000);
}

pauseButton.addEventListener('click', () => {
  paused = !paused;
  pauseButton.textContent = paused ? 'Resume' : 'Pause';
  pauseButton.setAttribute('aria-pressed', String(paused));
  if (run) showRun();
  if (paused) clearTimeout(timer);
  else look();
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && !paused) look();
});

// -- views ------------------------------------------------------------------------------------------------------------

async function show() {
  const route = readRoute();
  const name = views[route.view] ? route.view : 'overview';
  hideTip();
  for (const link of document.querySelectorAll('.tabs a'))
    link.getAttribute('href') === `#/${name}`
      ? link.setAttribute('aria-current', 'page')
      : link.removeAttribute('aria-current');
  if (current?.name !== name) {
    const root = el('div', {class: `view ${name}`});
    current = {name, view: views[name].create(root)};
    main.replaceChildren(el('h1', {class: 'hidden'}, views[name].title), root);
    scrollTo(0, 0);
  }
  current.view.route?.(route);
  if (run === null) return look();
  showRun();
  try {
    if (run.run) await current.view.update(run, true);
  } catch (error) {
    showProblem(error.message);
  }
}

document.getElementById('perfetto').addEventListener('click', () => openInPerfetto(run, showProblem));
addEventListener('hashchange', show);
addEventListener('keydown', (e) => {
  if (e.target.closest('input, select, textarea') || e.ctrlKey || e.metaKey || e.altKey) return;
  const at = Number(e.key) - 1;
  if (Object.keys(views)[at]) location.hash = `#/${Object.keys(views)[at]}`;
});
show();
