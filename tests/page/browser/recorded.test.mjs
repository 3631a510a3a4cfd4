// A user looks at a finished run.

import assert from 'node:assert/strict';
import {test} from 'node:test';

import {open, stage} from './browser.mjs';

const slowRun = () => stage('--steps', 40, '--slow-from', 10, '--slow-to', 20);

test('the address works once, without leaving the token in it', async (t) => {
  const {page, origin} = await open(t, await slowRun());
  await page.getByText('nothing is blocked').waitFor();
  assert.equal(page.url(), `${origin}/`);
  await page.reload();
  await page.getByText('nothing is blocked').waitFor();
  assert.equal(await page.evaluate(() => document.cookie), '', 'scripts cannot read the token');
});

test('without the token there is nothing', async (t) => {
  const {page, origin, context} = await open(t, await slowRun(), {errors: ['401']});
  await context.clearCookies();
  for (const path of ['/', '/page.js', '/api/run', '/metrics'])
    assert.equal((await page.request.get(origin + path)).status(), 401, path);
  await page.goto(origin);
  await page.getByText('This page needs its token').waitFor();
});

test('the overview shows the run, its figures and its actors', async (t) => {
  const {page} = await open(t, await slowRun());
  await page.locator('.tile', {hasText: 'Loss'}).getByText('0.47').waitFor();
  assert.equal(await page.locator('.tile', {hasText: 'Step time'}).locator('.unit').textContent(), ' ms');
  assert.equal(await page.locator('.topology-drawing .actor').count(), 7);
  assert.deepEqual(await page.locator('.curve .label').allTextContents(), ['loss', 'auc', 'samples/s', 'step time']);
  await page.locator('.actor', {hasText: 'server 1'}).hover();
  await page.locator('#tip', {hasText: 'messages handled'}).waitFor();
  await page.locator('.actor', {hasText: 'server 1'}).click();
  await page.waitForURL(/#\/messages\?actor=server\+1/);
  await page.locator('.row').first().waitFor();
  const rows = await page.locator('.row').allTextContents();
  assert.ok(rows.length > 5 && rows.every((text) => text.includes('server 1')), rows[0]);
});

test('a slow step names who was slow', async (t) => {
  const {page} = await open(t, await slowRun());
  await page.getByRole('link', {name: 'Steps', exact: true}).click();
  await page.locator('.step-bar[aria-label^="step 12,"]').click();
  await page.getByRole('heading', {name: 'Step 12'}).waitFor();
  assert.match(await page.locator('.formula').textContent(), /^6\d(\.\d)? ms = .*apply 5\d(\.\d)? ms \(server 1\)/);
  assert.match(
    await page.locator('.what-if').textContent(),
    /apply \(server 1\) took half its time: the step would take 3\d/,
  );
  const slack = page.locator('.card', {has: page.getByRole('heading', {name: 'Slack'})});
  assert.match(await slack.getByRole('row', {name: /^server 1/}).textContent(), /critical/);
  assert.match(await slack.getByRole('row', {name: /^server 0/}).textContent(), /50(\.\d)? ms/);
  assert.ok((await page.locator('.bar.critical').count()) > 0);
  const over = page.locator('.card', {has: page.getByRole('heading', {name: 'Over all these steps'})});
  assert.match(await over.getByRole('row').nth(1).textContent(), /apply.*server 1.*11 of 39/);
});

test('arrow keys go from step to step', async (t) => {
  const {page, goto} = await open(t, await slowRun());
  await goto('#/steps/12');
  await page.getByRole('heading', {name: 'Step 12'}).waitFor();
  await page.locator('.step-bar.chosen').focus();
  await page.keyboard.press('ArrowRight');
  await page.getByRole('heading', {name: 'Step 13'}).waitFor();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  await page.getByRole('heading', {name: 'Step 11'}).waitFor();
});

test('a part of the chain leads to its message', async (t) => {
  const {page, goto} = await open(t, await slowRun());
  await goto('#/steps/12');
  await page.locator('.chain').getByRole('link', {name: 'gradient wire'}).click();
  await page.locator('.detail').getByRole('heading', {name: 'gradient'}).waitFor();
  await page.locator('.facts').getByRole('link', {name: '12', exact: true}).click();
  await page.getByRole('heading', {name: 'Step 12'}).waitFor();
});

test('messages are filtered, opened, and followed to their causes', async (t) => {
  const {page} = await open(t, await slowRun());
  await page.getByRole('link', {name: 'Messages'}).click();
  await page.getByText('960 match').waitFor();
  await page.getByLabel('Type').fill('gradient');
  await page.getByText('240 match').waitFor();
  await page.getByLabel('From', {exact: true}).fill('trainer 1');
  await page.getByText('80 match').waitFor();
  await page.getByLabel('From step').fill('7');
  await page.getByLabel('To step').fill('7');
  await page.getByText('2 match').waitFor();
  assert.match(page.url(), /type=gradient&first_step=7&last_step=7/);
  await page.locator('.row').first().click();
  const detail = page.locator('.detail');
  await detail.getByRole('heading', {name: 'gradient'}).waitFor();
  const name = await detail.locator('header .mono').textContent();
  assert.match(name, /^trainer 1 #\d+$/);
  await detail.locator('section', {hasText: 'Causes'}).getByRole('link').first().click();
  await detail.getByRole('heading', {name: 'rows'}).waitFor();
  await detail.locator('section', {hasText: 'Effects'}).getByRole('link', {name: name}).click();
  await detail.getByRole('heading', {name: 'gradient'}).waitFor();
  await page.goBack();
  await detail.getByRole('heading', {name: 'rows'}).waitFor();
  await detail.getByRole('link', {name: 'Close'}).click();
  await detail.waitFor({state: 'hidden'});
  await page.getByRole('button', {name: 'Clear'}).click();
  await page.getByText('960 match').waitFor();
});

test('messages are ordered, searched, and refused when the filter makes no sense', async (t) => {
  const {page, goto} = await open(t, await slowRun(), {errors: ['400']});
  await goto('#/messages');
  await page.getByLabel('Order').selectOption('slowest first');
  await page.locator('.row').first().getByText('server 1').waitFor();
  assert.match(await page.locator('.row').first().textContent(), /5\d(\.\d)? ms$/);
  await page.getByLabel('Search').fill('trainer 1 #20');
  await page.getByText('1 match').waitFor();
  await page.getByLabel('Search').fill('');
  await page.getByLabel('Show').selectOption('collectives');
  await page.getByText('40 match').waitFor();
  await page.getByLabel('From step').fill('many');
  await page.getByText("first_step is 'many', which is not a number").waitFor();
});

test('the list is walked with the keyboard', async (t) => {
  const {page, goto} = await open(t, await slowRun());
  await goto('#/messages');
  await page.getByText('960 match').waitFor();
  await page.getByRole('grid').focus();
  await page.keyboard.press('End');
  await page.locator('.row.cursor[aria-rowindex="960"]').waitFor();
  await page.locator('.row.cursor', {hasText: 'lookup'}).waitFor();
  await page.keyboard.press('Enter');
  await page.locator('.detail').getByRole('heading', {name: 'lookup'}).waitFor();
});

test('a look into a message finds its NaN', async (t) => {
  const {page, goto} = await open(t, await slowRun());
  await goto('#/messages?type=gradient');
  await page.locator('.row').first().click();
  const contents = page.locator('.detail section', {hasText: 'Contents'});
  await contents.getByText('64 \u00d7 16').waitFor();
  assert.equal(await contents.locator('.alarm').textContent(), '1');
  await contents.getByRole('cell', {name: 'int64'}).waitFor();
});

test('a cell of the traffic leads to its messages', async (t) => {
  const {page} = await open(t, await slowRun());
  await page.getByRole('link', {name: 'Traffic'}).click();
  await page.getByRole('button', {name: 'Messages'}).click();
  const cell = page.getByRole('link', {name: 'trainer 0 to server 1'});
  assert.equal(await cell.textContent(), '80');
  await cell.click();
  await page.getByText('80 match').waitFor();
  assert.match(page.url(), /#\/messages\?from=trainer\+0&to=server\+1/);
});

test('what the cells show is chosen before there are any', async (t) => {
  const {page, goto} = await open(t, await slowRun());
  let answer;
  const chosen = new Promise((resolve) => {
    answer = resolve;
  });
  await page.route('**/api/traffic', async (route) => {
    await chosen;
    await route.continue();
  });
  await goto('#/traffic');
  await page.getByRole('button', {name: 'Messages'}).click();
  await page.getByRole('button', {name: 'Messages', pressed: true}).waitFor();
  answer();
  assert.equal(await page.getByRole('link', {name: 'trainer 0 to server 1'}).textContent(), '80');
});

test('traffic of one type', async (t) => {
  const {page, goto} = await open(t, await slowRun());
  await goto('#/traffic');
  await page.getByLabel('Type of message').selectOption('rows');
  await page.getByRole('link', {name: 'server 0 to trainer 2: 40 messages, 9.92 MiB'}).waitFor();
  assert.equal(await page.locator('.matrix td a').count(), 6);
});

test('the theme follows the system until it is chosen', async (t) => {
  const {page} = await open(t, await slowRun(), {theme: 'dark'});
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.getByText('nothing is blocked').waitFor();
  assert.equal(await ground(), 'rgb(14, 17, 23)');
  await page.getByRole('button', {name: 'Switch between light and dark'}).click();
  assert.equal(await ground(), 'rgb(244, 245, 248)');
  await page.reload();
  await page.getByText('nothing is blocked').waitFor();
  assert.equal(await ground(), 'rgb(244, 245, 248)');
});

test('names are text, whatever they hold', async (t) => {
  const {page, goto} = await open(t, await stage('--steps', 12, '--odd-names'));
  await page.locator('.actor-name', {hasText: '<script>alert'}).waitFor();
  await goto('#/traffic');
  await page.getByRole('rowheader', {name: '<script>alert(1)</script> 1'}).waitFor();
  await page.getByRole('cell', {name: '<img src=x onerror=alert(2)>'}).first().waitFor();
  await goto('#/steps/7');
  await page.getByRole('cell', {name: '<script>alert(1)</script> 1'}).first().waitFor();
  await goto('#/messages?type=%3Cimg+src%3Dx+onerror%3Dalert(2)%3E');
  await page.locator('.row').first().click();
  await page.locator('.detail').getByRole('heading', {name: '<img src=x onerror=alert(2)>'}).waitFor();
  await goto('#/blocked');
  await page.getByRole('heading', {name: 'Waits'}).waitFor();
  assert.equal(await page.locator('main script, main img').count(), 0);
});

test('a lost message is named, with who waits for it', async (t) => {
  const {page} = await open(t, await stage('--steps', 12, '--lose', '--processes'));
  await page
    .getByText(/trainer 1 #\d+ \(gradient, step 12\) was sent by trainer 1, and never arrived at server 0/)
    .waitFor();
  assert.equal(await page.locator('.edge.waiting').count(), 4);
  await page.getByRole('link', {name: '4 waits'}).click();
  const waits = page.locator('.card', {has: page.getByRole('heading', {name: 'Waits'})});
  await waits.getByRole('row', {name: /server 0.*trainer 1.*gradient of step 12.*never arrived/}).waitFor();
  await waits
    .getByRole('row', {name: /^trainer 2/})
    .getByRole('link', {name: /answer to lookup/})
    .click();
  await page.locator('.detail').getByRole('heading', {name: 'lookup'}).waitFor();
});

test('an address that leads nowhere', async (t) => {
  const {page, goto} = await open(t, await slowRun(), {errors: ['400', '404']});
  await goto('#/nonsense');
  await page.getByText('nothing is blocked').waitFor();
  await goto('#/steps/4711');
  await page.getByText('step 4711 is not recorded as a whole').waitFor();
  await goto('#/messages/3.4711');
  await page.getByText('This message is not recorded').waitFor();
  await goto('#/messages/%E0%A4%A');
  await page.locator('.list .row').first().waitFor();
});

test('a small window shows all of it', async (t) => {
  const {page, goto} = await open(t, await slowRun(), {width: 390, height: 800});
  for (const view of ['overview', 'steps', 'traffic', 'messages', 'blocked']) {
    await goto(`#/${view}`);
    await page.locator(`.view.${view} :is(.matrix, .tile, .waterfall, .row, .banner)`).first().waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${view} is ${wide} px too wide`);
  }
});

/** A stand-in for Perfetto's page: answers PING, and keeps the trace that it gets. */
const perfetto = `<script>addEventListener('message', (e) => {
  if (e.data === 'PING') e.source.postMessage('PONG', e.origin);
  else if (e.data.perfetto) window.got = {title: e.data.perfetto.title, text: new TextDecoder().decode(e.data.perfetto.buffer)};
})</script>`;

test('the trace is handed over to Perfetto, whole or a step of it', async (t) => {
  const {page, context, goto} = await open(t, await slowRun());
  await context.route('https://ui.perfetto.dev/**', (route) =>
    route.fulfill({contentType: 'text/html', body: perfetto}),
  );
  const handOver = async (name) => {
    const [other] = await Promise.all([context.waitForEvent('page'), page.getByRole('button', {name}).click()]);
    await other.waitForFunction(() => window.got);
    const {title, text} = await other.evaluate(() => window.got);
    await other.close();
    return {title, events: JSON.parse(text).traceEvents.length};
  };
  const whole = await handOver('Open in Perfetto');
  assert.equal(whole.title, 'Troupe run 0000000000000007');
  assert.ok(whole.events > 1936, `${whole.events} events`);
  await goto('#/steps/12');
  const part = await handOver('This step in Perfetto');
  assert.equal(part.title, 'Troupe run 0000000000000007, step 12');
  assert.ok(part.events > 40 && part.events < whole.events / 5, `${part.events} events`);
});

test('the trace is downloaded', async (t) => {
  const {page} = await open(t, await slowRun());
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', {name: 'Download trace'}).click(),
  ]);
  assert.equal(download.suggestedFilename(), 'troupe-trace.json');
});
