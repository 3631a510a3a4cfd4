// The program itself: a recorded run that is viewed afterwards, and one that is viewed while it runs.

import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {test} from 'node:test';

import {open, serve} from './browser.mjs';

const program = process.env.TROUPE_PROGRAM;

function folderOf(test) {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-page-'));
  test.after(() => rmSync(folder, {recursive: true, force: true}));
  return folder;
}

/** Waits until a process has begun to write a trace in the folder. */
async function hasTrace(folder) {
  const begun = Date.now();
  while (!readdirSync(folder).some((name) => name.endsWith('.ring'))) {
    assert.ok(Date.now() - begun < 60_000, 'no trace was begun');
    await new Promise((resolve) => {
      setTimeout(resolve, 50);
    });
  }
}

test('a run that is over', async (t) => {
  const folder = folderOf(t);
  execFileSync(program, [
    'train',
    '--trace',
    'payload',
    '--trace-dir',
    folder,
    '--data',
    'tutorial',
    '--epochs',
    '5',
    '--quiet',
  ]);
  const {page} = await open(t, await serve(program, ['trace', 'serve', folder]));
  await page.getByText('nothing is blocked').waitFor();
  assert.equal(await page.locator('.actor[data-actor^="trainer"]').count(), 2);
  await page.getByRole('link', {name: 'Steps', exact: true}).click();
  await page.locator('.chain tbody tr').first().waitFor();
  // On any machine: the step's time, and which actors spent it on what.
  assert.match(await page.locator('.formula').textContent(), /^[\d.]+ .?s = .+ \((trainer|server|allreduce)/);
  await page.getByRole('link', {name: 'Messages'}).click();
  await page.getByLabel('Type').fill('gradient');
  await page.waitForURL(/type=gradient/);
  await page.locator('.row', {hasText: 'gradient'}).first().click();
  const detail = page.locator('.detail');
  await detail.getByRole('heading', {name: 'gradient'}).waitFor();
  await detail.locator('section', {hasText: 'Contents'}).getByRole('cell', {name: 'float32'}).first().waitFor();
  await detail.locator('section', {hasText: 'Causes'}).getByRole('link').first().click();
  // The last message that the trainer waited for.
  await detail.getByRole('heading', {name: /rows|reduced/}).waitFor();
});

test('a live run, and then it is gone', async (t) => {
  const folder = folderOf(t);
  const run = spawn(program, ['train', '--trace-dir', folder, '--epochs', '1000000', '--quiet'], {stdio: 'ignore'});
  t.after(() => run.kill('SIGKILL'));
  await hasTrace(folder);
  const {page} = await open(t, await serve(program, ['trace', 'serve', folder]));
  await page.locator('#state', {hasText: 'live'}).waitFor();
  const last = () =>
    page
      .locator('.tile', {hasText: 'whole ones recorded'})
      .locator('.big')
      .textContent()
      .then((text) => Number(text.replace(/\D/g, '')));
  const before = await last();
  while ((await last()) <= before) await page.waitForResponse(/api\/steps/);
  await page.getByText('The run continues').waitFor();
  run.kill('SIGKILL');
  await page.locator('#state', {hasText: 'ended abruptly'}).waitFor();
  await page.locator('.banner.bad').waitFor();
});
