// Everything shown is accessible: contrast as WCAG 2 requires (4.5, or 3 for large text), and a name for every control.

import assert from 'node:assert/strict';
import {test} from 'node:test';

import {open, stage} from './browser.mjs';

/** Runs in the page. Returns texts with too little contrast, and controls without a name. */
function findFlaws() {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = ([r, g, b, a], ground) => [r, g, b].map((x, i) => (x * a + ground[i] * (255 - a)) / 255);
  const groundOf = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      layers.push(colour);
      if (colour[3] === 255) break;
    }
    return layers.reduceRight((ground, layer) => over(layer, ground), [255, 255, 255]);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((x) => x / 255).map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const flaws = [];
  for (const node of document.querySelectorAll('body *:not(svg *):not(script):not(option)')) {
    const text = [...node.childNodes]
      .filter((x) => x.nodeType === Node.TEXT_NODE)
      .map((x) => x.data)
      .join('')
      .trim();
    if (!text || node.closest('.hidden, .skip, [hidden]') || node.getClientRects().length === 0) continue;
    const style = getComputedStyle(node);
    const ground = groundOf(node);
    const [a, b] = [luminance(over(rgba(style.color), ground)), luminance(ground)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    if (contrast < (large ? 3 : 4.5))
      flaws.push(`contrast ${contrast.toFixed(2)}: ${node.tagName} ${node.className} '${text.slice(0, 30)}'`);
  }
  for (const node of document.querySelectorAll('a[href], button, input, select')) {
    const name =
      node.getAttribute('aria-label') ?? (node.labels?.length ? node.labels[0].textContent : node.textContent);
    if (!name.trim() && node.getClientRects().length > 0) flaws.push(`no name: ${node.outerHTML.slice(0, 80)}`);
  }
  return flaws;
}

for (const theme of ['light', 'dark'])
  test(`everything can be read in ${theme}`, async (t) => {
    const {page, goto} = await open(
      t,
      await stage('--steps', 30, '--slow-from', 10, '--slow-to', 20, '--lose', '--processes'),
      {theme},
    );
    for (const [hash, ready] of [
      ['overview', '.tile'],
      ['steps/12', '.chain'],
      ['traffic', '.matrix'],
      ['messages?type=gradient', '.row'],
      ['blocked', 'table'],
    ]) {
      await goto(`#/${hash}`);
      await page
        .locator(`.view.${hash.split(/[/?]/)[0]} ${ready}`)
        .first()
        .waitFor();
      if (hash.startsWith('messages')) {
        await page.locator('.row').first().click();
        await page.locator('.detail table').first().waitFor();
      }
      assert.deepEqual(await page.evaluate(findFlaws), [], hash);
    }
  });
