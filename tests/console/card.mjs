// verifies cards in a real browser, and shows that each change of their data or their text turns exactly its part red
//
// The environment has CARDS (JSON with the paths of two cards), STORED (a folder with cards of earlier versions), CHROMIUM, CARD_CHANGES (the number of changes, 60 by default), and
// CONSOLE_SHOTS (a folder for screenshots; none are taken without it).

import { AxeBuilder } from "@axe-core/playwright";
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { chromium } from "playwright-core";

const { CARDS, STORED: stored, CONSOLE_SHOTS: shots, CHROMIUM: executablePath = "/usr/bin/chromium", CARD_CHANGES: changes = "60" } = process.env;
const paths = JSON.parse(CARDS);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
const page = await context.newPage();
const faults = [];
page.on("pageerror", (error) => faults.push(error.message));
page.on("request", (request) => {
  if (!request.url().startsWith("file:")) faults.push(`a request to ${request.url()}`);
});

/** The state of each part of a card. */
async function statesOf(path, within = page) {
  await within.goto(`file://${path}`);
  await within.waitForFunction(() => document.documentElement.dataset.checked, null, { timeout: 10_000 });
  return within.$$eval("section", (sections) => Object.fromEntries(sections.map(({ id, dataset }) => [id, dataset.state])));
}

const parts = ["verdict", "decision", "facts", "origin", "divergence", "further", "proof"];
const fine = {};
const all = (state) => Object.fromEntries(parts.map((part) => [part, state]));

for (const [index, path] of paths.entries()) {
  fine[path] = await statesOf(path);
  const empty = ["further", ...(index === 0 ? ["origin", "divergence"] : ["facts"])];
  for (const part of parts) assert.equal(fine[path][part], empty.includes(part) ? "empty" : "consistent", part);
  const body = await page.locator("body").innerText();
  assert.match(body, /consistent with the log key \S+\+[0-9a-f]{8}\+\S+; compare it with the one you were given/);
  assert.doesNotMatch(body, /genuine/i);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await new AxeBuilder({ page }).analyze();
    const bad = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(bad.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), [], colorScheme);
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 900 });
      assert.ok(await page.evaluate((width) => document.documentElement.scrollWidth <= width, width), `${width} pixels`);
      if (shots) await page.screenshot({ path: `${shots}/card-${index}-${width}-${colorScheme}.png`, fullPage: true });
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  }
  await page.emulateMedia({ colorScheme: "light" });
  const pdf = (await page.pdf({ preferCSSPageSize: true })).toString("latin1");
  assert.equal(pdf.match(/\/Type\s*\/Page\b/g).length, 1, "one page is printed");
}

// stored cards: of an erased person, and with a cosignature
for (const [name, shown] of [["card-2-erased", /because it was erased/], ["card-2-cosigned", /witness\.example\/w1/]]) {
  const states = await statesOf(`${stored}/${name}.html`);
  assert.deepEqual(states, { ...all("consistent"), origin: "empty", divergence: "empty", further: "empty" }, name);
  assert.match(await page.locator("body").innerText(), shown);
  if (shots) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
}

// without Ed25519, and without scripts
const old = await context.newPage();
await old.addInitScript(() => {
  SubtleCrypto.prototype.importKey = () => Promise.reject(new DOMException("no", "NotSupportedError"));
});
assert.deepEqual(await statesOf(paths[0], old), all("unchecked"));
assert.match(await old.locator("#proof .state").innerText(), /^not checked/);
const still = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
await still.goto(`file://${paths[0]}`);
assert.match(await still.locator("#verdict").innerText(), /not checked[^]*The population of Aruba in 2015 was 101,001\./);

/** The places of the bytes of the data and of the shown text, without its tags. */
function placesOf(bytes) {
  const text = bytes.toString("latin1");
  const places = [];
  const add = (part, start, length) => {
    for (let at = start; at < start + length; at += 1) places.push([part, at]);
  };
  const slots = [...text.matchAll(/<dl>(.*?)<\/dl>\n<script type="application\/json">(.*?)<\/script>/gs)];
  for (const [index, slot] of slots.entries()) {
    for (const row of slot[1].matchAll(/>([^<]+)</g)) add(parts[index], slot.index + "<dl>".length + row.index + 1, row[1].length);
    add(parts[index], slot.index + slot[0].length - "</script>".length - slot[2].length, slot[2].length);
  }
  return places;
}

let seed = 53;
const random = (below) => {
  seed = (seed * 48271) % 0x7fffffff;
  return seed % below;
};
const counts = {};
for (let number = 0; number < Number(changes); number += 1) {
  const path = paths[number % paths.length];
  const bytes = await readFile(path);
  const places = placesOf(bytes);
  // each part as often as the others: the proof has fewer bytes than the facts
  const part = parts[random(parts.length)];
  if (part === "further") continue;
  const own = places.filter(([of]) => of === part);
  const [, at] = own[random(own.length)];
  const before = bytes[at];
  bytes[at] ^= 1 << random(8);
  // the parser of HTML reads both line ends as one, so the page shows nothing else
  if (before === 10 && bytes[at] === 13) continue;
  const changed = `${path}.changed.html`;
  await writeFile(changed, bytes);
  const states = await statesOf(changed);
  const where = `byte ${at} of ${path}: ${before} is ${bytes[at]}`;
  // a changed verdict names no entries, so the parts with entries are not checked
  const others = part === "verdict" && Object.values(states).includes("unchecked") ? "unchecked" : "consistent";
  const expected = Object.entries(fine[path]).map(([id, state]) => [id, id === "proof" || state === "empty" ? state : others]);
  if (part !== "proof") assert.deepEqual(states, { ...Object.fromEntries(expected), [part]: "changed" }, where);
  // a change of the checkpoint leaves the others unchecked; one of its shown text does not concern them
  else assert.deepEqual(parts.filter((id) => states[id] === "changed"), ["proof"], where);
  counts[part] = (counts[part] ?? 0) + 1;
}
assert.deepEqual(faults, []);
await browser.close();
console.log(`the cards are verified; changes by part: ${JSON.stringify(counts)}`);
