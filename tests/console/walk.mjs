// drives the console in a real browser through every action, and attacks it from other pages
//
// The environment has CONSOLE_LINK (the login link), CONSOLE_STATE (JSON with the ids of what the test has prepared), CHROMIUM, and
// CONSOLE_SHOTS (a folder for screenshots; none are taken without it).

import { AxeBuilder } from "@axe-core/playwright";
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { chromium } from "playwright-core";

const { CONSOLE_LINK: link, CONSOLE_SHOTS: shots, CHROMIUM: executablePath = "/usr/bin/chromium" } = process.env;
const state = JSON.parse(process.env.CONSOLE_STATE);
const origin = new URL(link).origin;
const port = new URL(link).port;

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--host-resolver-rules=MAP evil.example 127.0.0.1"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
// nothing is measured here, and the machine may be busy
context.setDefaultTimeout(120_000);
const page = await context.newPage();
const faults = [];
page.on("pageerror", (error) => faults.push(`error of a script: ${error.message}`));
page.on("console", (message) => {
  // a refused action is shown by its status
  if (message.type() === "error" && !message.text().includes("status of 4")) faults.push(message.text());
});
page.on("request", (request) => {
  if (new URL(request.url()).origin !== origin) faults.push(`a request to ${request.url()}`);
});

async function open(path) {
  await page.goto(origin + path);
}

/** Takes pictures of the open page: wide and narrow, light and dark. */
async function shoot(name) {
  if (!shots) return;
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await page.screenshot({ path: `${shots}/${name}-${width}-${colorScheme}.png`, fullPage: true });
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 900 });
}

/** Checks the open page with axe in both color schemes, and its width on a phone. */
async function inspect(name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await new AxeBuilder({ page }).analyze();
    const bad = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(bad.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), [], `${name}, ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 390, height: 800 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 390), `${name} is wider than a phone`);
  await page.setViewportSize({ width: 1280, height: 900 });
}

/** Checks the open page, and takes screenshots. */
async function check(name) {
  await inspect(name);
  await shoot(name.replaceAll(" ", "-"));
}

/** Opens a page, checks it, and takes screenshots. */
async function visit(path, name) {
  await open(path);
  await check(name);
}

/** Fills in the reason of the form with this button, and presses the button. */
async function act(name, reason = "seen in the browser") {
  const form = page.locator("form").filter({ has: page.getByRole("button", { name }) });
  await form.getByLabel("Reason").fill(reason);
  await form.getByRole("button", { name }).click();
}

async function expectText(text) {
  await page.getByText(text).first().waitFor();
}

// login
await page.goto(link);
await page.waitForURL(`${origin}/`);
await expectText("What needs you");
const cookies = await context.cookies();
const { hostname } = new URL(link);
assert.match(hostname, /^[0-9a-f]{32}\.localhost$/);
assert.deepEqual(cookies.map(({ domain, httpOnly, sameSite }) => [domain, httpOnly, sameSite]), [[hostname, true, "Strict"]]);
await visit("/", "overview");

// live parts: they change without a reload, and not while they are paused
const count = "#log .v a";
const entries = async () => Number((await page.locator(count).innerText()).replaceAll(",", ""));

/** Waits until the number of entries rises. */
async function expectUpdate() {
  const shown = await entries();
  await page.waitForFunction(
    ([path, before]) => Number(document.querySelector(path).textContent.replaceAll(",", "")) > before,
    [count, shown],
  );
}
await expectUpdate();
await page.getByRole("button", { name: "Pause updates" }).click();
const paused = await entries();
await page.waitForTimeout(3_000);
assert.equal(await entries(), paused, "a paused page does not change");
await page.getByRole("button", { name: "Continue updates" }).click();
await expectUpdate();

// a click into a table focuses its region and does not stop the updates; a focused link does, with a note
await page.getByRole("region", { name: "Actors" }).locator("th").first().click();
await expectUpdate();
assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Actors");
await page.locator(count).focus();
await expectText("Updates wait while you use this part of the page.");
await page.locator(count).blur();
await expectUpdate();
assert.equal(await page.locator("#live-state").innerText(), "Live");

// the keyboard reaches the content first
await open("/");
await page.keyboard.press("Tab");
assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
await page.keyboard.press("Enter");
assert.equal(await page.evaluate(() => document.activeElement.id), "main");

// the inbox, with the keyboard only: ten disputes
const keys = async (...pressed) => {
  for (const key of pressed) await page.keyboard.press(key);
};
await visit("/inbox/rule", "rule");
await visit("/orders/several?state=held", "several-orders");
// one box checks all
const boxes = page.locator("input[type=checkbox][form=decide]");
const checked = () => boxes.evaluateAll((all) => all.filter((one) => one.checked).length);
await page.getByLabel("Check all").uncheck();
assert.equal(await checked(), 0, "no order is checked");
await boxes.first().check();
assert.ok(await page.getByLabel("Check all").evaluate((box) => box.indeterminate), "some are checked");
await page.getByLabel("Check all").check();
assert.equal(await checked(), await boxes.count(), "all orders are checked");
await visit("/inbox", "inbox");
await keys("3");
await page.waitForURL(/kind=dead_letter/);
await keys("g", "i");
await page.waitForURL(`${origin}/inbox`);
await keys("4");
await page.waitForURL(/kind=dispute/);
await keys("j", "j", "k", "Enter");
await page.waitForURL(/\/reviews\//);
await check("dispute");
const decided = new Set();
// a slow machine would press the keys too late from here
await page.addInitScript(() => document.addEventListener("DOMContentLoaded", () => setTimeout(() => {
  for (const key of location.search.includes("done=") ? ["x", "1"] : []) {
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  }
  window.early = document.activeElement.id;
}, 250)));
for (let number = 0; number < 10; number += 1) {
  const path = new URL(page.url()).pathname;
  decided.add(path);
  if (number > 0) {
    // a second press of the key of the last action does not act on this item
    await page.waitForFunction(() => window.early !== undefined);
    assert.equal(await page.evaluate(() => window.early), "", "the keys of actions wait");
    await page.waitForTimeout(1_100);
  }
  // an action without a reason leads to the reason
  await keys("1");
  await page.waitForFunction(() => document.activeElement.id === "reason");
  await page.keyboard.type("the census of the office");
  await keys("Escape", ...(number === 9 ? ["x"] : [number % 2 ? "2" : "1"]));
  await page.waitForURL((url) => url.pathname !== path && url.search.includes("done="));
  await expectText(number === 9 ? "Done: dismissed." : "Done: resolved.");
}
assert.equal(decided.size, 10, "ten disputes were decided");
await expectText("Population, Aruba, 19");

// Tab continues from the row that the keys have selected
await open("/inbox");
await keys("j");
assert.ok(await page.evaluate(() => document.activeElement.matches("[data-row].cur")), "the row has the focus");

// a zoomed page has the same keys
await page.setViewportSize({ width: 640, height: 450 });
await keys("/");
assert.equal(await page.evaluate(() => document.activeElement.id), "find");
await keys("Escape", "?");
assert.ok(await page.locator("#keys kbd").first().isVisible(), "the keys are shown");
await keys("Escape");
await page.setViewportSize({ width: 1280, height: 900 });

// the list of keys has those of the page
await open("/inbox");
await keys("?");
await page.locator("#page-keys").getByText("Importance, then age").waitFor();
await keys("Escape");
await page.getByRole("heading", { name: "Decided" }).waitFor();
await page.getByText("resolved: 54,").first().waitFor();

// orders and sessions
await visit("/orders?state=held", "orders");
await page.keyboard.press("/");
await page.keyboard.type("bakery-1041");
await page.keyboard.press("Enter");
await page.waitForURL(`${origin}/find?q=bakery-1041`);
await check("held session");
await page.getByRole("link", { name: "Read the held verdict" }).click();
await expectText("As the customer would see it");
await check("held verdict");
await open("/sessions/bakery-1043/held");
await expectText("empty analysis");
await shoot("held-strategy-verdict");
for (const [session, button, done] of [
  ["bakery-1041", "Release to the customer", "released"],
  ["bakery-1042", "Ask the model again", "retried"],
  ["florist-2007", "Fail the order", "failed"],
]) {
  await open(`/sessions/${session}`);
  await act(button);
  await expectText(`Done: ${done}.`);
}
await visit("/sessions/bakery-1041", "session");
await page.getByRole("link", { name: "Read the verdict" }).click();
await expectText("As the customer sees it");
await check("delivered verdict");
await open("/sessions/florist-2007");
await page.getByText("Erase…").click();
await page.getByLabel("Repeat the id of the session").fill("florist-2007");
await act("Erase the session", "a request of the customer");
await expectText("session florist-2007 is erased");

// disputes, by the mouse
const [bySource, byOwn, dismissed] = state.reviews;
await visit("/holds", "holds");
await visit("/webhooks", "webhooks");
await visit("/reviews", "reviews");
await page.getByRole("link", { name: bySource }).click();
await check("review");
// a reason that is not sent stays with its item
await page.getByLabel("Reason").fill("drafted");
await page.reload();
assert.equal(await page.getByLabel("Reason").inputValue(), "drafted");
await expectText("Restored draft.");
await open(`/reviews/${byOwn}`);
assert.equal(await page.getByLabel("Reason").inputValue(), "", "another item has no draft");
await open(`/reviews/${bySource}`);
await act(/^Use 54,611/);
await open(`/reviews/${bySource}`);
await expectText("54611");
assert.equal(await page.getByLabel("Reason").inputValue(), "", "a sent reason is not kept");
await act("Revoke the resolution");
await expectText("Done: revoked.");
await open(`/reviews/${byOwn}`);
// a value that no source is near is asked for again, with the reason and the value kept
await page.getByText("Use another value").click();
await page.getByLabel("Value of population, person").fill("74");
await act("Use this value");
await expectText("you have entered 74 persons");
// a gray button does nothing: the second press of a double click is none
assert.ok(await page.evaluate(() => {
  // as a page that the browser shows again
  window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
  const button = document.querySelector("#decide button[data-enter]");
  const before = button.getAttribute("aria-disabled");
  button.click();
  return before === "true" && !button.form.dataset.sent;
}), "a gray button sends nothing");
// the field has the focus again; its key leads to it, and does not send the value; Enter does
await page.waitForFunction(() => document.activeElement.id === "own-population");
await page.keyboard.press("Escape");
await page.keyboard.press("v");
await page.waitForFunction(() => document.activeElement.id === "own-population");
await page.keyboard.press("Backspace");
await page.keyboard.press("5");
await page.waitForTimeout(1_100);
await page.keyboard.press("Enter");
await expectText("you have entered 75 persons");
await check("question");
assert.equal(await page.getByLabel("Reason").inputValue(), "seen in the browser");
await page.getByLabel("Value of population, person").fill("54,300");
await act("Use this value");
await expectText("Done: resolved.");
await open(`/reviews/${byOwn}`);
await expectText("54,300");
await open(`/reviews/${dismissed}`);
// what is missing, and which keys decide
await page.keyboard.press("x");
await expectText("Reason is empty.");
await page.keyboard.press("Control+Enter");
await expectText("Ctrl and Enter decide nothing here.");
await page.getByLabel("Reason").fill("ä".repeat(3000));
await expectText("6000 of 4096 bytes: shorten the text.");
await act("Comment only", "which edition is it?");
await expectText("which edition is it?");
// a colleague has the same dispute open, and has written a reason
const colleague = await context.newPage();
await colleague.goto(`${origin}/reviews/${dismissed}`);
await colleague.getByLabel("Reason").fill("my own reason");
await act("Dismiss, keep the conflict");
await expectText("Done: dismissed.");
await colleague.getByText("Dismissed at").waitFor();
assert.ok(await colleague.locator("#decide button[name=action]").first().isDisabled(), "nothing can be sent any longer");
assert.equal(await colleague.getByLabel("Reason").inputValue(), "my own reason");
await colleague.close();

// sources
await visit("/sources", "sources");
await visit("/sources/national-statistics", "source");
await page.getByRole("link", { name: "Facts" }).click();
await page.getByText("+ filter").click();
await page.getByLabel("Filters, one on a line").fill("area=ABW\nyear<=1966");
await page.getByRole("button", { name: "Query the source" }).click();
await expectText("--unix-socket");
await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin });
await page.getByRole("button", { name: "Copy curl" }).click();
await page.getByText("copied", { exact: true }).waitFor();
assert.match(await page.evaluate(() => navigator.clipboard.readText()), /--unix-socket/);
await page.getByRole("link", { name: "year", exact: true }).click();
await page.waitForURL(/sort=year/);
await check("facts");
const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "CSV" }).click()]);
assert.equal(file.suggestedFilename(), "national-statistics.csv");
await visit("/sources/national-statistics/history?where:area=ABW&where:year=1961&axis=population", "history");
const lines = await page.locator("figure.chart svg svg path").count();
assert.ok(lines > 1, "one line for each state of knowledge");
assert.equal(await page.locator(".legend li").count(), lines, "the legend names each line");
await visit(`/runs/${state.heldRuns[0]}`, "run");
await expectText("<b>Nowhere</b>");
await act("Approve the run");
await expectText("Done: approved.");
await open(`/runs/${state.heldRuns[0]}`);
await page.waitForFunction(async () => {
  const text = await (await fetch(location.pathname)).text();
  return text.includes("Undo the run");
}, null, { polling: 500 });
await page.reload();
await act("Undo the run");
await expectText("Done: undone.");
await open(`/runs/${state.heldRuns[1]}`);
await act("Discard the run");
await page.waitForURL((url) => url.search.includes("done=discarded"));
await open(`/runs/${state.heldRuns[1]}`);
await expectText("discarded");

// rules
await open("/rules");
await page.getByLabel("Text", { exact: true }).fill("The tower has 3 floors. The tower is green.");
await page.getByLabel("Facts, one on a line").fill("The tower has 3 floors.");
await page.getByRole("button", { name: "Check the text" }).click();
await expectText("no fact supports this claim");
assert.match(await page.locator("a.claim.ok").first().innerText(), /3 floors/);
await check("rules");

// log
await visit("/log", "log");
await page.getByText("+ filter").click();
await page.getByLabel("Event").selectOption("review_resolved");
await page.getByRole("button", { name: "Filter the entries" }).click();
await expectText("event review_resolved");
// the keyboard opens a line in its place
await keys("j", "Enter");
await page.getByRole("link", { name: /with its proof/ }).first().click();
await expectText("verified now");
await check("log entry");
const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /^Download/ }).click()]);
assert.match(download.suggestedFilename(), /^entry-\d+\.json$/);
// the recall of a verdict: its source, its run, its notice, and the mail that was not accepted
const { session: recalled, run: correction } = state.recall;
await visit("/recalls?source=statistics-office", "recalls");
await expectText("109009");
await visit(`/runs/${correction}`, "recall-run");
assert.ok(await page.locator(`a[href^="/recalls?source=statistics-office"]`).count() > 0, "the run has its recall card");
await visit(`/notices/${recalled}`, "notice");
await expectText("A correction to your verdict");
await visit(`/dead/outbox/verdict%3A${recalled}`, "dead-letter");
await expectText("Remove it unsent");
await visit(`/sessions/${recalled}/verdict`, "recalled-verdict");
await expectText("As the customer sees it");

// what would change
await visit("/what-if", "what-if");
await page.locator('textarea[name="gate"]').fill("[gate]\nhold = []");
await page.getByRole("button", { name: "Calculate" }).click();
await expectText("held → approved");
await check("what-if-result");

// an error
await visit("/nothing", "error");
await expectText("404");
await visit("/sessions/nobody", "unknown-session");

// without scripts: three pages, and a decision
const still = await browser.newContext({ javaScriptEnabled: false, storageState: await context.storageState() });
still.setDefaultTimeout(120_000);
const plain = await still.newPage();
await plain.goto(`${origin}/inbox`);
await plain.getByText("Disputes").first().waitFor();
await plain.goto(`${origin}/log`);
assert.match(await plain.locator("#main").innerText(), /load-\d+/);
await plain.goto(`${origin}/sessions/bakery-1043`);
const failing = plain.locator("form").filter({ has: plain.getByRole("button", { name: "Fail the order" }) });
await failing.getByLabel("Reason").fill("decided without scripts");
await failing.getByRole("button", { name: "Fail the order" }).click();
await plain.getByText("Done: failed.").first().waitFor();
await still.close();
assert.deepEqual(faults, []);

// a page of another origin on this machine, which has the browser with its cookie
// the attacker knows even the order's last change, which the forms must repeat
await open("/sessions/garage-3310");
const changedAt = await page.locator('input[name="changed_at"]').first().inputValue();
const attack = `<!doctype html><title>attack</title><script>
  const read = [];
  const target = ${JSON.stringify(origin)};
  const note = (how) => (result) => read.push([how, result]);
  Promise.all([
    fetch(target + "/sessions/garage-3310", { credentials: "include" }).then((answer) => answer.text()).then(note("fetch"), () => {}),
    fetch(target + "/sessions/garage-3310", { credentials: "include", mode: "no-cors" }).then((answer) => answer.text()).then(
      (text) => text && read.push(["opaque fetch", text]), () => {}),
    fetch(target + "/sessions/garage-3310/order", { method: "POST", credentials: "include", mode: "no-cors",
      headers: { "Content-Type": "application/x-www-form-urlencoded" }, body: "action=release&reason=attack&changed_at=${encodeURIComponent(changedAt)}" }).catch(() => {}),
    new Promise((resolve) => {
      const events = new EventSource(target + "/events/log", { withCredentials: true });
      events.onmessage = (event) => { read.push(["events", event.data]); resolve(); };
      events.onerror = () => { events.close(); resolve(); };
    }),
    new Promise((resolve) => {
      const script = document.createElement("script");
      script.src = target + "/assets/console.js";
      script.onload = () => { read.push(["script", ""]); resolve(); };
      script.onerror = resolve;
      document.head.append(script);
    }),
    new Promise((resolve) => {
      const frame = document.createElement("iframe");
      frame.src = target + "/sessions/garage-3310";
      frame.onload = () => {
        try { if (frame.contentDocument.body.textContent.includes("garage-3310")) read.push(["frame", ""]); } catch {}
        resolve();
      };
      document.documentElement.append(frame);
    }),
  ]).then(() => { window.result = read; });
</script>
<form method="post" action="${origin}/sessions/garage-3310/order"><input name="action" value="release"><input name="reason" value="attack">
<input name="changed_at" value="${changedAt}"><button>go</button></form>`;
const hostile = createServer((request, response) => {
  hostileCookies.push(request.headers.cookie ?? "");
  response.setHeader("content-type", "text/html");
  response.end(attack);
});
const hostileCookies = [];
await new Promise((resolve) => hostile.listen(0, "127.0.0.1", resolve));
const hostilePort = hostile.address().port;
for (const host of ["127.0.0.1", "localhost", "evil.example"]) {
  const victim = await context.newPage();
  await victim.goto(`http://${host}:${hostilePort}/`);
  await victim.waitForFunction(() => window.result);
  assert.deepEqual(await victim.evaluate(() => window.result), [], `a page on ${host} read something`);
  await victim.getByRole("button").click();
  await victim.waitForURL(/\/sessions\/garage-3310\/order$/);
  assert.match(await victim.locator("body").innerText(), /refused|not logged in/i, host);
  // a link to the console opens nothing with the login
  await victim.goto(`http://${host}:${hostilePort}/`);
  await victim.evaluate((target) => { location.href = `${target}/sessions/garage-3310`; }, origin);
  await victim.waitForURL(/\/sessions\/garage-3310$/);
  assert.match(await victim.locator("body").innerText(), /refused|not logged in/i, host);
  await victim.close();
}
// DNS rebinding: the name of the attacker becomes the address of the console
const rebound = await context.newPage();
await rebound.goto(`http://evil.example:${port}/sessions/garage-3310`);
assert.match(await rebound.locator("body").innerText(), /refused/);
assert.doesNotMatch(await rebound.locator("body").innerText(), /short_summary/);
await rebound.close();
hostile.close();
hostile.closeAllConnections();
assert.deepEqual(hostileCookies.filter(Boolean), [], "a server on another port received the cookie");

// the order was not released by any of them
await open("/sessions/garage-3310");
await expectText("Release to the customer");
const following = await context.newPage();
await following.goto(`${origin}/log`);
await page.getByRole("button", { name: "Log out" }).click();
await expectText("You are logged out.");
const drafts = await page.evaluate(() => Object.keys(sessionStorage).filter((name) => name.startsWith("draft:")));
assert.deepEqual(drafts, [], "no draft is left after the login");
await following.getByText("Updates have ended.").waitFor();
await open("/");
await expectText("This browser is not logged in.");
await check("not-logged-in");
await browser.close();
console.log("the walk is complete");
