// shows in real browsers that scripts which an earlier server of the port has left do not run in the console
//
// The earlier server leaves a cached script or a service worker. It is closed, and the console starts on its port. With `--ip`, the attack
// must succeed, because otherwise this would show nothing.
//
// The environment has ORACLECTL (JSON with the program and its arguments), and CHROMIUM and FIREFOX (the paths of the browsers; one that
// is missing is left out).

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import puppeteer from "puppeteer-core";

const [program, ...programArguments] = JSON.parse(process.env.ORACLECTL);
const { CHROMIUM, FIREFOX } = process.env;
const browsers = {
  chromium: { browser: "chrome", executablePath: CHROMIUM, args: ["--no-sandbox"] },
  firefox: { browser: "firefox", executablePath: FIREFOX },
};
/** The machine may be busy. */
const TIMEOUT = 120_000;
/** Names with which a browser reaches the earlier server. */
const HOSTS = ["127.0.0.1", "localhost", "earlier.localhost"];
const SCRIPT_PATH = "/assets/console.js";

/** A script that reads the page of an order, and releases it. It notes its progress where the test finds it. */
const steal = (session) => `{
  const note = (text) => { document.documentElement.dataset.earlier = text; };
  note("runs");
  fetch("/sessions/${session}").then(async (page) => {
    if (!page.ok) return note("is refused");
    note("has read");
    const changedAt = (await page.text()).match(/name="changed_at" value="([^"]+)"/);
    if (!changedAt) return;
    const fields = { action: "release", reason: "attack", changed_at: changedAt[1] };
    const answer = await fetch("/sessions/${session}/order", { method: "POST", body: new URLSearchParams(fields) });
    note(answer.ok ? "has released" : "has read, and got " + answer.status);
  }).finally(() => { document.documentElement.dataset.ended = ""; });
}`;

/** The pages and scripts of an earlier server, which the browser keeps. */
const attacks = {
  script: {
    page: () => `<script src="${SCRIPT_PATH}" onload="document.title = 'left'"></script>`,
    file: steal,
  },
  worker: {
    page: () => `<script>navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready).then(() => { document.title = "left"; });</script>`,
    // it passes on the login, and replaces the pages after it
    file: (session) => `
      const page = ${JSON.stringify(`<!doctype html><title>of the worker</title><script>${steal(session)}</script>`)};
      self.addEventListener("install", () => self.skipWaiting());
      self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
      self.addEventListener("fetch", (event) => {
        if (event.request.mode !== "navigate" || new URL(event.request.url).pathname === "/login") return;
        event.respondWith(new Response(page, { headers: { "Content-Type": "text/html" } }));
      });`,
  },
};

/** Serves an attack on a free port of both loopback addresses. */
async function serveEarlier({ page, file }, session) {
  const answer = (request, response) => {
    const isFile = request.url.endsWith(".js");
    response.setHeader("Content-Type", isFile ? "text/javascript" : "text/html");
    // the attack needs the pages of the console itself
    response.setHeader("Cache-Control", isFile ? "max-age=31536000, immutable" : "no-store");
    response.end(isFile ? file(session) : page());
  };
  const servers = [];
  for (const host of ["127.0.0.1", "::1"]) {
    const server = createServer(answer).listen(servers[0]?.address().port ?? 0, host);
    // a machine can lack IPv6
    const [error] = await Promise.race([once(server, "listening"), once(server, "error").catch((error) => [error])]);
    if (!error) servers.push(server);
    else assert.equal(error.code, "EADDRNOTAVAIL");
  }
  const close = async () => {
    for (const server of servers) {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    }
  };
  return { port: servers[0].address().port, close };
}

async function startConsole(port, further) {
  const child = spawn(program, [...programArguments, "console", "--port", String(port), ...further], { stdio: ["pipe", "pipe", "inherit"] });
  const links = createInterface(child.stdout)[Symbol.asyncIterator]();
  const link = (await links.next()).value;
  const renewLink = async () => {
    child.stdin.write("\n");
    return (await links.next()).value;
  };
  const stop = async () => {
    child.kill();
    await once(child, "exit");
  };
  return { link, renewLink, stop };
}

/** Opens the overview, and returns its note: that of the attack, or that of the console's own script, which reports that updates arrive. */
async function logIn(page, link) {
  await page.goto(link);
  await page.waitForFunction(() => location.pathname === "/" && (document.documentElement.dataset.earlier
    || document.querySelector("#live-state")?.textContent === "Live"));
  return readNote(page);
}

/** The progress of an attack on the open page: when it has ended, or after a time in which none has begun. */
async function readNote(page) {
  await sleep(1_500);
  await page.waitForFunction(() => !document.documentElement.dataset.earlier || document.documentElement.dataset.ended === "");
  return page.evaluate(() => document.documentElement.dataset.earlier ?? "nothing");
}

/** Runs an attack, and returns what it has noted in the pages of the console, and on the pages at the earlier addresses. */
async function run(launch, attack, session, further) {
  const earlier = await serveEarlier(attack, session);
  const browser = await puppeteer.launch({ ...launch, headless: true, protocolTimeout: TIMEOUT });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(TIMEOUT);
    for (const host of HOSTS) {
      await page.goto(`http://${host}:${earlier.port}/`);
      await page.waitForFunction(() => document.title === "left");
    }
    await page.goto("about:blank");
    await earlier.close();
    const { link, renewLink, stop } = await startConsole(earlier.port, further);
    try {
      const first = await logIn(page, link);
      const notes = [];
      const origin = new URL(link).origin;
      const own = ["/", `/sessions/${session}`, "/log"].map((path) => origin + path);
      for (const address of [...own, ...HOSTS.map((host) => `http://${host}:${earlier.port}/`)]) {
        await page.goto(address);
        notes.push(await readNote(page));
      }
      const workers = await page.goto(`${origin}/log`).then(() => page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length));
      // a private window, which the console recommends with `--ip`
      const other = await (await browser.createBrowserContext()).newPage();
      other.setDefaultTimeout(TIMEOUT);
      const inPrivate = await logIn(other, await renewLink());
      return { inConsole: [first, ...notes.slice(0, own.length)], elsewhere: notes.slice(own.length), workers, inPrivate };
    } finally {
      await stop();
    }
  } finally {
    await browser.close();
  }
}

for (const [name, launch] of Object.entries(browsers)) {
  if (!launch.executablePath) continue;
  for (const [kind, attack] of Object.entries(attacks)) {
    const control = await run(launch, attack, `${name}-${kind}-ip`, ["--ip"]);
    console.log(`${name}, ${kind}, --ip: ${JSON.stringify(control)}`);
    // the order can be released by the page before the overview; the log of the daemon shows it to the caller
    assert.ok(control.inConsole.every((note) => note.startsWith("has re")), `the attack does not work in ${name}: ${kind}`);
    assert.equal(control.inPrivate, "nothing", `${name}: ${kind}`);
    const defended = await run(launch, attack, `${name}-${kind}-name`, []);
    console.log(`${name}, ${kind}: ${JSON.stringify(defended)}`);
    assert.deepEqual([...new Set(defended.inConsole)], ["nothing"], `${name}: ${kind}`);
    assert.equal(defended.workers, 0, `${name}: ${kind}`);
    // scripts there have no rights
    for (const note of defended.elsewhere) assert.ok(["nothing", "is refused"].includes(note), `${name}: ${kind}: ${note}`);
  }
}
