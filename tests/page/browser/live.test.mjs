// A user looks at a live run.

import assert from 'node:assert/strict';
import {test} from 'node:test';

import {open, stage} from './browser.mjs';

const step = (page) =>
  page.locator('.tile', {hasText: 'whole ones recorded'}).locator('.big').textContent().then(Number);
const isBeyond = (page, last) =>
  page.waitForFunction((least) => Number(document.querySelector('.tile .big')?.textContent) > least, last);

test('the page follows the run, until it is paused', async (t) => {
  const {page} = await open(t, await stage('--steps', 20, '--live'));
  await page.locator('#state', {hasText: 'live'}).waitFor();
  await page.locator('.tile').first().waitFor();
  await isBeyond(page, await step(page));
  await page.getByRole('button', {name: 'Pause'}).click();
  await page.locator('#state', {hasText: 'paused'}).waitFor();
  // A request in flight completes; after that there are no further requests.
  let asked = 0;
  page.on('request', () => {
    asked += 1;
  });
  const rest = (ms) =>
    page.evaluate(
      (time) =>
        new Promise((resolve) => {
          setTimeout(resolve, time);
        }),
      ms,
    );
  do {
    asked = 0;
    await rest(500);
  } while (asked > 0);
  await rest(2500);
  assert.equal(asked, 0);
  const held = await step(page);
  await page.getByRole('button', {name: 'Resume'}).click();
  await isBeyond(page, held);
});

test('a list that somebody reads stands still', async (t) => {
  const {page, goto} = await open(t, await stage('--steps', 20, '--live'));
  await goto('#/messages');
  await page.locator('.row').first().waitFor();
  await page.locator('.list').evaluate((list) => {
    list.scrollTop = 600;
  });
  await page.locator('.row[aria-rowindex="21"] .waiting-row').waitFor({state: 'detached'});
  const total = await page.getByText(/match$/).textContent();
  const row = await page.locator('.row[aria-rowindex="21"]').textContent();
  const generation = () =>
    page.evaluate(() =>
      fetch('/api/run')
        .then((answer) => answer.json())
        .then((run) => run.generation),
    );
  const begun = await generation();
  while ((await generation()) < begun + 4) await page.waitForResponse(/api\/run/);
  assert.equal(await page.locator('.row[aria-rowindex="21"]').textContent(), row);
  assert.equal(await page.getByText(/match$/).textContent(), total);
  await page.locator('.list').evaluate((list) => {
    list.scrollTop = 0;
  });
  await page.waitForFunction((old) => document.querySelector('.card-head .muted').textContent !== old, total);
});

test('it says so when the program ends', async (t) => {
  const {page, stop} = await open(t, await stage('--steps', 20, '--live'), {errors: ['Failed to load resource']});
  await page.locator('.tile').first().waitFor();
  await stop();
  await page.getByText('The program that serves this page does not answer').waitFor();
  await page.locator('.topology-drawing').waitFor();
});
