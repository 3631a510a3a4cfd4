// A million records: nothing may load all of them, and every view must stay quick.

import assert from 'node:assert/strict';
import {test} from 'node:test';

import {open, stage} from './browser.mjs';

const patience = 30_000; // ms; on a quiet machine each takes some tenths of a second

async function within(what, action) {
  const begin = performance.now();
  await action();
  const took = performance.now() - begin;
  assert.ok(took < patience, `${what} took ${took.toFixed(0)} ms`);
}

test('a million records stay usable', async (t) => {
  const {page, goto} = await open(t, await stage('--steps', 9000, '--trainers', 6, '--servers', 4));
  page.setDefaultTimeout(patience);
  let received = 0;
  page.on('response', async (answer) => {
    received += Number(answer.headers()['content-length'] ?? 0);
  });
  await page.locator('.tile').first().waitFor({timeout: 240_000}); // the run is made first
  assert.ok(Number((await page.evaluate(() => fetch('/api/run').then((x) => x.json()))).records) > 1_000_000);

  await within('the list', async () => {
    await goto('#/messages');
    await page.locator('.row').first().getByText('trainer').first().waitFor();
  });
  const total = Number((await page.getByText(/match$/).textContent()).replace(/\D/g, ''));
  assert.equal(total, 9000 * 84);
  await within('a jump to the end', async () => {
    await page.getByRole('grid').focus();
    await page.keyboard.press('End');
    await page.locator(`.row.cursor[aria-rowindex="${total}"]`, {hasText: 'lookup'}).waitFor();
  });
  await within('a jump to the middle', async () => {
    await page.locator('.list').evaluate((list) => {
      list.scrollTop = list.scrollHeight / 2;
    });
    await page.waitForFunction(
      () => [...document.querySelectorAll('.row')].length > 5 && !document.querySelector('.waiting-row'),
    );
  });
  await within('one step further', async () => {
    await page.keyboard.press('ArrowUp');
    await page.waitForFunction(() => !document.querySelector('.waiting-row'));
  });
  await within('a search', async () => {
    await page.getByLabel('Search').fill('trainer 5 #4711');
    await page.getByText('1 match').waitFor();
  });
  await within('the slowest', async () => {
    await goto('#/messages?order=slowest');
    await page.locator('.row').first().getByText('trainer').first().waitFor();
  });
  await within('a message', async () => {
    await page.locator('.row').first().click();
    await page.locator('.detail h2').waitFor();
  });
  await within('steps', async () => {
    await goto('#/steps/8000');
    await page.locator('.chain').waitFor();
  });
  await within('traffic', async () => {
    await goto('#/traffic');
    await page.locator('.matrix').waitFor();
  });
  assert.ok(received < 20e6, `${received} bytes were loaded`);
  assert.ok((await page.locator('*').count()) < 5000);
});
