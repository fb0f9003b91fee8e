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
const context = await browser.newContext({ viewport: { width: 1200, height: 900 } });
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

async function shoot(name) {
  if (shots) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: false });
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
  await page.setViewportSize({ width: 1200, height: 900 });
}

/** Opens a page, checks it, and takes a screenshot. */
async function visit(path, name) {
  await open(path);
  await inspect(name);
  await shoot(name);
}

/** Fills in the reason of the form with this button, and submits it. */
async function act(button, reason = "seen in the browser") {
  const form = page.locator("form").filter({ has: page.getByRole("button", { name: button, exact: true }) });
  if (reason) await form.getByLabel("Reason").fill(reason);
  await form.getByRole("button", { name: button, exact: true }).click();
}

async function expectText(text) {
  await page.getByText(text).first().waitFor({ timeout: 10_000 });
}

// login
await page.goto(link);
await page.waitForURL(`${origin}/`);
await expectText("It accepts verdicts.");
const cookies = await context.cookies();
assert.deepEqual(cookies.map(({ httpOnly, sameSite }) => [httpOnly, sameSite]), [[true, "Strict"]]);
await visit("/", "overview");

// live parts: they change without a reload, and not while they are paused
const entries = async () => Number.parseInt(await page.getByRole("link", { name: /^\d+ entries$/ }).innerText(), 10);
const before = await entries();
await page.waitForFunction((count) => {
  const shown = [...document.querySelectorAll("#live a")].map((anchor) => Number.parseInt(anchor.textContent, 10));
  return shown.some((number) => number > count);
}, before, { timeout: 15_000 });
await page.getByRole("button", { name: "Pause updates" }).click();
const paused = await entries();
await page.waitForTimeout(3_000);
assert.equal(await entries(), paused, "a paused page does not change");
await page.getByRole("button", { name: "Continue updates" }).click();

/** Waits until the number of entries changes. */
async function expectUpdate() {
  const shown = await entries();
  await page.waitForFunction(
    (count) => [...document.querySelectorAll("#live a")].some((anchor) => Number.parseInt(anchor.textContent, 10) > count),
    shown,
    { timeout: 15_000 },
  );
}

// a click into a table focuses its region and does not stop the updates; a focused link does, with a note
await page.getByRole("region", { name: "Actors" }).locator("caption").click();
await expectUpdate();
assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Actors");
await page.getByRole("link", { name: /^\d+ entries$/ }).focus();
await expectText("Updates wait while you use this part of the page.");
await page.getByRole("link", { name: /^\d+ entries$/ }).blur();
await expectUpdate();
assert.equal(await page.locator("#live-state").innerText(), "");

// the keyboard reaches the content first
await open("/");
await page.keyboard.press("Tab");
assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
await page.keyboard.press("Enter");
assert.equal(await page.evaluate(() => document.activeElement.id), "main");

// orders and sessions
await visit("/orders?state=held", "orders");
await page.getByLabel("Session").fill("cs_1");
await page.getByRole("button", { name: "Open the session" }).click();
await page.waitForURL(`${origin}/sessions/cs_1`);
await visit("/sessions/cs_1", "session");
await page.getByRole("link", { name: "Read the held verdict" }).click();
await expectText("coherence");
await inspect("held verdict");
for (const [session, button, done] of [
  ["cs_1", "Release the held verdict", "released"],
  ["cs_2", "Retry the order", "retried"],
  ["cs_3", "Fail the order", "failed"],
]) {
  await open(`/sessions/${session}`);
  await act(button);
  await expectText(`Done: ${done}.`);
}
await open("/sessions/cs_3");
await page.getByLabel("Repeat the id of the session").fill("cs_3");
await act("Erase the session", "a request of the customer");
await expectText("session cs_3 is erased");

// reviews
const [bySource, byMean, byOwn, dismissed] = state.reviews;
await visit("/reviews", "reviews");
await page.getByRole("link", { name: bySource }).click();
await visit(`/reviews/${bySource}`, "review");
await page.getByRole("group", { name: "Value of population" }).getByText("54611").click();
await act("Resolve the review");
await expectText("Done: resolved.");
await act("Revoke the resolution");
await expectText("Done: revoked.");
await open(`/reviews/${byMean}`);
await page.getByText("the mean of the sources").click();
await act("Resolve the review");
await expectText("population 54410");
await open(`/reviews/${byOwn}`);
await page.getByRole("radio", { name: "Own value" }).check();
await page.getByRole("textbox", { name: "Own value of population" }).fill("54300");
await act("Resolve the review");
await expectText("population 54300");
await open(`/reviews/${dismissed}`);
await page.getByRole("textbox", { name: "Comment" }).fill("which edition is it?");
await act("Add the comment", null);
await expectText("which edition is it?");
await act("Dismiss the review");
await expectText("Done: dismissed.");

// sources
await visit("/sources", "sources");
await visit("/sources/office-a", "source");
const query = page.locator("form").filter({ has: page.getByRole("button", { name: "Query the source" }) });
await query.getByLabel("Filters").fill("area=ABW\nyear<=1962");
await query.getByRole("button").click();
await expectText("--unix-socket");
await inspect("query");
await shoot("query");
await visit("/sources/office-a/history?where:area=ABW&where:year=1961&axis=population", "history");
const lines = await page.locator("figure.chart > svg path").count();
assert.ok(lines > 1, "one line for each time of knowledge");
assert.equal(await page.locator(".legend li").count(), lines, "the legend names each line");
await visit(`/runs/${state.heldRuns[0]}`, "run");
await expectText("<b>Nowhere</b>");
await act("Approve the run");
await expectText("Done: approved.");
await page.waitForFunction(async () => {
  const text = await (await fetch(location.pathname)).text();
  return text.includes("Undo the run");
}, null, { timeout: 15_000, polling: 500 });
await page.reload();
await act("Undo the run");
await expectText("Done: undone.");
await open(`/runs/${state.heldRuns[1]}`);
await act("Discard the run");
await expectText("Done: discarded.");

// rules
await open("/rules");
await page.getByLabel("Text", { exact: true }).fill("The tower has 3 floors. The tower is green.");
await page.getByLabel("Facts, one on a line").fill("The tower has 3 floors.");
await page.getByRole("button", { name: "Check the text" }).click();
await expectText("no fact supports this claim");
assert.match(await page.locator("mark.supported").first().innerText(), /3 floors/);
await inspect("rules");
await shoot("rules");

// log
await visit("/log", "log");
await page.getByLabel("Event").selectOption("review_resolved");
await page.getByRole("button", { name: "Filter the entries" }).click();
await page.locator("tbody a").first().click();
await expectText("verified now");
await inspect("log entry");
await shoot("log-entry");
const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /^Download/ }).click()]);
assert.match(download.suggestedFilename(), /^entry-\d+\.json$/);
assert.deepEqual(faults, []);

// a page of another origin on this machine, which has the browser with its cookie
// the attacker knows even the order's last change, which the forms must repeat
await open("/sessions/cs_4");
const changedAt = await page.locator('input[name="changed_at"]').first().inputValue();
const attack = `<!doctype html><title>attack</title><script>
  const read = [];
  const target = ${JSON.stringify(origin)};
  const note = (how) => (result) => read.push([how, result]);
  Promise.all([
    fetch(target + "/sessions/cs_4", { credentials: "include" }).then((answer) => answer.text()).then(note("fetch"), () => {}),
    fetch(target + "/sessions/cs_4", { credentials: "include", mode: "no-cors" }).then((answer) => answer.text()).then(
      (text) => text && read.push(["opaque fetch", text]), () => {}),
    fetch(target + "/sessions/cs_4/order", { method: "POST", credentials: "include", mode: "no-cors",
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
      frame.src = target + "/sessions/cs_4";
      frame.onload = () => {
        try { if (frame.contentDocument.body.textContent.includes("cs_4")) read.push(["frame", ""]); } catch {}
        resolve();
      };
      document.documentElement.append(frame);
    }),
  ]).then(() => { window.result = read; });
</script>
<form method="post" action="${origin}/sessions/cs_4/order"><input name="action" value="release"><input name="reason" value="attack">
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
  await victim.waitForFunction(() => window.result, null, { timeout: 15_000 });
  assert.deepEqual(await victim.evaluate(() => window.result), [], `a page on ${host} read something`);
  await victim.getByRole("button").click();
  await victim.waitForURL(/\/sessions\/cs_4\/order$/);
  assert.match(await victim.locator("body").innerText(), /refused|not logged in/i, host);
  // a link to the console opens nothing with the login
  await victim.goto(`http://${host}:${hostilePort}/`);
  await victim.evaluate((target) => { location.href = `${target}/sessions/cs_4`; }, origin);
  await victim.waitForURL(/\/sessions\/cs_4$/);
  assert.match(await victim.locator("body").innerText(), /refused|not logged in/i, host);
  await victim.close();
}
// DNS rebinding: the name of the attacker becomes the address of the console
const rebound = await context.newPage();
await rebound.goto(`http://evil.example:${port}/sessions/cs_4`);
assert.match(await rebound.locator("body").innerText(), /refused/);
assert.doesNotMatch(await rebound.locator("body").innerText(), /short_summary/);
await rebound.close();
hostile.close();
hostile.closeAllConnections();

// the order was not released by any of them
await open("/sessions/cs_4");
await expectText("Release the held verdict");
const following = await context.newPage();
await following.goto(`${origin}/log`);
await page.getByRole("button", { name: "Log out" }).click();
await expectText("You are logged out.");
await following.getByText("Updates have ended.").waitFor({ timeout: 15_000 });
await open("/");
await expectText("This browser is not logged in.");
await browser.close();
console.log(`the walk is complete; a server on another port received ${hostileCookies.filter(Boolean).length} requests with a cookie`);
