// Shared by the tests of this folder: a made-up run with its page, and a browser that reports every error and every
// request to another origin.

import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {createRequire} from 'node:module';
import {after, before} from 'node:test';

const {chromium} = createRequire(`${process.env.TROUPE_BROWSER_TESTS}/`)('playwright-core');

let browser;
before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.TROUPE_CHROMIUM,
    args: process.getuid() === 0 ? ['--no-sandbox'] : [],
  });
});
after(() => browser.close());

/** Starts a program that prints the page's address; `stop` ends it by closing its standard input and with SIGINT. */
export async function serve(program, args) {
  const child = spawn(program, args, {stdio: ['pipe', 'pipe', 'inherit']});
  const url = await new Promise((resolve, reject) => {
    child.stdout.once('data', (text) => resolve(String(text).trim()));
    child.once('exit', (code) => reject(new Error(`${program} ended with ${code}`)));
  });
  const stop = () =>
    new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) return resolve();
      child.once('exit', resolve);
      child.stdin.end();
      child.kill('SIGINT');
    });
  return {url, stop};
}

export const stage = (...args) => serve(process.env.TROUPE_PAGE_STAGE, args.map(String));

/**
 * Opens a browser's page on a run in `test`, which closes it at its end. `errors` are the expected errors.
 * @returns {Promise<{page, url, origin, stop, goto(hash)}>}
 */
export async function open(test, {url, stop}, {theme = 'light', width = 1400, height = 900, errors = []} = {}) {
  const context = await browser.newContext({colorScheme: theme, viewport: {width, height}});
  const page = await context.newPage();
  const complaints = [];
  const complain = (text) => {
    if (!errors.some((one) => text.includes(one))) complaints.push(text);
  };
  const {origin} = new URL(url);
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complain(message.text());
  });
  page.on('pageerror', (error) => complain(error.stack));
  page.on('dialog', (dialog) => {
    complain(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) complain(`request to ${request.url()}`);
  });
  page.setDefaultTimeout(120_000); // a busy machine takes long to read a run again
  test.after(async () => {
    await context.close();
    await stop();
    assert.deepEqual(complaints, [], 'what the browser complained of');
  });
  await page.goto(url);
  return {
    page,
    url,
    origin,
    stop,
    context,
    goto: (hash) =>
      page.evaluate((next) => {
        location.hash = next;
      }, hash),
  };
}
