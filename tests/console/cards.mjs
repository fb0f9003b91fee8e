// prints one line for each card in a file of `tests/tests/card_forgeries.rs`: whether the page of the card accepts it
//
// Usage: node cards.mjs FILE. A card is accepted if each part is consistent or empty, with the expected key; `skipped` stands for a card
// with another page, which no page detects. The environment has CHROMIUM, and HEAP=1 to print the bytes of the script's heap, too.

import { createReadStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const { CHROMIUM: executablePath = "/usr/bin/chromium" } = process.env;
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await (await browser.newContext({ bypassCSP: true })).newPage();
const devtools = await page.context().newCDPSession(page);

const EMPTY = '<dl></dl>\n<script type="application/json"></script>';
const SCRIPT = /<script type="module">(.*?)<\/script>/s;
let head;
for await (const line of createInterface({ input: createReadStream(process.argv[2]), crlfDelay: Infinity })) {
  const card = JSON.parse(line);
  if (!head) {
    head = card;
    // the script of the page, once for all cards; only a file, like a card, has the browser's cryptography
    const file = `${process.argv[2]}.html`;
    await writeFile(file, "<!doctype html><title>cards</title>");
    await page.goto(pathToFileURL(file).href);
    await page.addScriptTag({ type: "module", content: `${SCRIPT.exec(head.frame)[1].replace("await showResults(document);", "")}\nglobalThis.showResults = showResults;` });
    await page.waitForFunction(() => globalThis.showResults);
    continue;
  }
  if (!card.slots) {
    console.log("skipped");
    continue;
  }
  const pieces = head.frame.split(EMPTY);
  const slots = card.slots.map(([shown, data]) => `<dl>${shown}</dl>\n<script type="application/json">${data}</script>`);
  const html = pieces.map((piece, index) => piece + (slots[index] ?? "")).join("");
  // the memory that a card leaves must not count for the next one
  if (process.env.HEAP) await devtools.send("HeapProfiler.collectGarbage");
  const { states, key, seconds } = await page.evaluate(async (html) => {
    const shown = new DOMParser().parseFromString(html, "text/html");
    const started = performance.now();
    await globalThis.showResults(shown);
    const sections = [...shown.querySelectorAll("section")];
    const proof = sections.find(({ id }) => id === "proof").querySelector(".state").textContent;
    return { states: sections.map(({ dataset }) => dataset.state), key: proof, seconds: (performance.now() - started) / 1000 };
  }, html);
  const fine = ["consistent", "empty", ...(card.allow_test_mode ? ["test"] : [])];
  const isAccepted = states.every((state) => fine.includes(state)) && key.startsWith(`consistent with the log key ${head.key};`);
  const { usedSize } = process.env.HEAP ? await devtools.send("Runtime.getHeapUsage") : {};
  console.log(`${isAccepted ? "accepted" : "refused"}${usedSize === undefined ? "" : ` ${usedSize} ${seconds}`}`);
}
await browser.close();
