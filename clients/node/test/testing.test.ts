import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { existsSync } from "node:fs";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import { test } from "node:test";
import { type Answer, OracledClient, type OrderReport, RejectedError, TimeoutError, type VerdictResponse, verifyWebhook, type WebhookEvent } from "oracled-client";
import { fakeOrder, fakeProblem, type FakeRequest, type FakeResponse, fakeVerdict, TestDaemon } from "oracled-client/testing";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ROOT } from "./daemon.js";

const order = { tier: "quick", query: "Sell honey?" } as const;

test("fake_transport_answers_calls_without_a_daemon", async () => {
  const requests: FakeRequest[] = [];
  const oracled = new OracledClient({
    transport: (request) => {
      requests.push(request);
      return request.method === "GET" ? fakeOrder("cs_1", "held") : fakeVerdict("cs_1", { verdict: "RED", summary: "Not today." });
    },
  });
  const delivered = await oracled.submitVerdict("cs_1", order);
  assert.equal(delivered.outcome === "delivered" && delivered.body.verdict.verdict, "RED");
  assert.equal((await oracled.readVerdict("cs_1")).outcome, "held");
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body]), [
    ["POST", "/v1/verdicts/cs_1", order],
    ["GET", "/v1/verdicts/cs_1", undefined],
  ]);
});

test("fakes_have_the_status_and_headers_of_the_daemon", async (context) => {
  const daemon = await TestDaemon.start({ program: PROGRAM });
  context.after(() => daemon.stop());
  const held = { ...order, query: "Sell? test:hold" };
  const slow = { ...order, query: "Sell? test:slow=9s" };
  const fakes: Record<string, (request: FakeRequest) => FakeResponse> = {
    good: () => fakeVerdict("good"),
    again: () => fakeVerdict("good", undefined, { replayed: true }),
    held: () => fakeOrder("held", "held"),
    slow: () => fakeOrder("slow", "generating", {}, 5),
  };
  const fake = (name: string) => new OracledClient({ transport: fakes[name]! });
  const calls: [string, (oracled: OracledClient) => Promise<Answer<unknown>>][] = [
    ["good", (oracled) => oracled.submitVerdict("good", order)],
    ["again", (oracled) => oracled.submitVerdict("good", order)],
    ["good", (oracled) => oracled.readVerdict("good")],
    ["held", (oracled) => oracled.submitVerdict("held", held)],
    ["held", (oracled) => oracled.readVerdict("held")],
    ["held", (oracled) => oracled.readOrder("held")],
    ["slow", (oracled) => oracled.submitVerdict("slow", slow, { respondAsync: true })],
    ["slow", (oracled) => oracled.readOrder("slow")],
  ];
  for (const [name, call] of calls) {
    const shown = ({ status, retryAfter, body }: Answer<unknown>) => {
      const { replayed, state, stop_cause } = body as Partial<VerdictResponse & OrderReport>;
      return { status, retryAfter, replayed, state, stop_cause };
    };
    assert.deepEqual(shown(await call(fake(name))), shown(await call(daemon.client)), `${name}: ${call}`);
  }
});

test("fake_transport_problems_are_errors_of_their_class", async () => {
  let calls = 0;
  const rejecting = new OracledClient({ transport: () => fakeProblem(422, "crosscheck_rejected") });
  await assert.rejects(rejecting.submitVerdict("cs_1", order), (error) => {
    assert(error instanceof RejectedError);
    return error.problem.decision?.approved === false;
  });
  const busy = new OracledClient({ transport: () => (++calls === 1 ? fakeProblem(503, "overloaded", "busy", 0) : fakeVerdict("cs_1")) });
  assert.equal((await busy.submitVerdict("cs_1", order)).outcome, "delivered");
  assert.equal(calls, 2, "a temporary error is retried");
});

test("fake_transport_is_ended_by_the_time_limit_and_the_signal", async () => {
  const silent = new OracledClient({ transport: () => new Promise(() => {}), timeoutMs: 50 });
  await assert.rejects(silent.submitVerdict("cs_1", order), TimeoutError);
  const [abort, reason] = [new AbortController(), new Error("the customer left")];
  setTimeout(() => abort.abort(reason), 20);
  await assert.rejects(silent.readVerdict("cs_1", { timeoutMs: 60_000, signal: abort.signal }), reason);
});

test("wait_reads_a_last_time_at_its_limit", async () => {
  let reads = 0;
  const oracled = new OracledClient({ transport: () => (++reads === 1 ? fakeOrder("cs_1", "queued", {}, 5) : fakeVerdict("cs_1")) });
  const began = performance.now();
  assert.equal((await oracled.waitForVerdict("cs_1", { waitMs: 300 })).outcome, "delivered");
  assert(performance.now() - began >= 290);
  assert.equal(reads, 2);
});

test("expired_wait_names_its_time_and_the_last_cause", async () => {
  const last = { attempt: 3, outcome: "model_unavailable" as const, cause: "HTTP status 503", started_at: "2026-01-01T00:00:00Z" };
  const waiting = fakeOrder("cs_1", "queued", { attempts: 3, last_attempts: [last as never] });
  const oracled = new OracledClient({ transport: () => waiting });
  await assert.rejects(oracled.waitForVerdict("cs_1", { waitMs: 200 }), (error) => {
    assert(error instanceof TimeoutError);
    assert.match(error.message, /no verdict within 0\.2 s/);
    assert.match(error.message, /queued \(attempts: 3\); the last attempt: model_unavailable: HTTP status 503/);
    return true;
  });
});

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

function signed(event: WebhookEvent, at: number, secret = SECRET) {
  const body = JSON.stringify(event);
  const key = Buffer.from(secret.slice(6), "base64");
  const signature = createHmac("sha256", key).update(`msg_1.${at}.${body}`).digest("base64");
  return { body, headers: { "Webhook-Id": "msg_1", "webhook-timestamp": `${at}`, "webhook-signature": `v1a,x v1,${signature}` } };
}

test("webhook_is_verified_by_its_signature_and_its_time", () => {
  const at = Math.floor(Date.now() / 1000);
  const event = { type: "order.delivered", timestamp: "2026-01-01T00:00:00Z", data: { application: "shop", session_id: "cs_1", attempts: 1 } } as const;
  const { body, headers } = signed(event, at);
  assert.deepEqual(verifyWebhook(body, headers, SECRET), { id: "msg_1", event });
  const other = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;
  assert.deepEqual(verifyWebhook(Buffer.from(body), new Headers(headers), [other, SECRET]).event, event);
  for (const broken of [
    () => verifyWebhook(`${body} `, headers, SECRET),
    () => verifyWebhook(body, headers, other),
    () => verifyWebhook(body, { ...headers, "Webhook-Id": "msg_2" }, SECRET),
    () => verifyWebhook(body, {}, SECRET),
    () => verifyWebhook(body, headers, SECRET, { now: new Date((at + 301) * 1000) }),
  ]) assert.throws(broken, { name: "WebhookError" });
  assert.throws(() => verifyWebhook(body, headers, "whsec_short"), TypeError);
});

test("webhook_with_an_invalid_argument_is_a_type_error_that_names_it", () => {
  const [body, headers] = ["{}", {}];
  for (const secret of [undefined, null, [undefined], 17, []] as never[]) {
    assert.throws(() => verifyWebhook(body, headers, secret), { name: "TypeError", message: /secret.* is .*required/ });
  }
  for (const parsed of [{ type: "order.held" }, null, undefined, new ArrayBuffer(2)] as never[]) {
    assert.throws(() => verifyWebhook(parsed, headers, SECRET), { name: "TypeError", message: /^`body` is .*raw bytes.*not the parsed JSON/ });
  }
  assert.throws(() => verifyWebhook(body, undefined as never, SECRET), { name: "TypeError", message: /^`headers` is undefined/ });
});

/** The status of the daemon in a folder. */
function readyStatus(folder: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const request = http.get({ socketPath: join(folder, "o.sock"), path: "/readyz", agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on("error", reject);
  });
}

/** The command lines of the processes that name a folder. */
function processesOf(folder: string): string {
  const lines = execFileSync("ps", ["-eo", "args"], { encoding: "utf8" }).split("\n");
  return lines.filter((line) => line.includes(folder)).join("\n");
}

const PROGRAM = process.env.ORACLED_BIN || join(ROOT, "target/debug/oracled");

test("test_daemon_answers_by_the_words_of_the_query", async (context) => {
  const daemon = await TestDaemon.start({ program: PROGRAM });
  context.after(async () => {
    await daemon.stop();
    assert(!existsSync(daemon.folder), "its files are removed");
  });
  const delivered = await daemon.client.submitVerdict("cs_1", { ...order, customer_email: "a@example.org" });
  assert.equal(delivered.outcome === "delivered" && delivered.body.verdict.verdict, "GREEN");
  assert.equal(delivered.headers["x-oracled-test-mode"], "true");
  const held = await daemon.client.submitVerdict("cs_2", { ...order, query: "Sell? test:hold" });
  assert.equal(held.outcome, "held");
  assert.match(daemon.oraclectl("status"), /test mode/);
  for (const end = Date.now() + 5_000; (await daemon.mails()).length === 0 && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 20));
  const [mail] = await daemon.mails();
  assert.deepEqual([mail?.to, mail?.subject], ["a@example.org", "[test mode] Your verdict: GREEN"]);
});

test("configuration_without_a_model_gets_the_canned_one", async (context) => {
  const daemon = await TestDaemon.start({ program: PROGRAM, config: "[limits]\nidle_s = 50" });
  context.after(() => daemon.stop());
  assert.equal((await daemon.client.submitVerdict("cs_1", order)).outcome, "delivered");
});

test("configuration_has_a_model_by_its_table_or_a_key_before_the_tables", async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "oracled-test-"));
  context.after(() => rm(folder, { recursive: true }));
  // prints its configuration and ends
  const program = join(folder, "printing");
  await writeFile(program, '#!/bin/sh\ncat "$4"\n', { mode: 0o755 });
  for (const [config, hasModel] of [
    ["", false],
    ["[limits]\nidle_s = 50\n", false],
    ['[tools]\nmodel = "a"\nmodels.b = 1\n', false],
    ["[tools.model]\na = 1\n", false],
    ['[model]\nprovider = "x"\n', true],
    ["a = 1\n [models.x]\n", true],
    ["[limits]\r\nidle_s = 50\r\n[[ models ]]\r\n", true],
    ['a = 1\n\nmodel.provider = "x"\n', true],
    ['models = ["a"]', true],
    ["model_limit = 1\n", false],
  ] as const) {
    await assert.rejects(TestDaemon.start({ program, config }), (error) => String(error).includes("canned") === !hasModel, config);
  }
});

test("test_daemon_that_cannot_start_is_an_error_with_its_output", async () => {
  await assert.rejects(TestDaemon.start({ program: PROGRAM, config: "[model]\nprovider = 7\n" }), /the daemon .* did not start: .*provider/s);
  await assert.rejects(TestDaemon.start({ program: "true" }), /bin\/true did not start: it printed nothing/);
  for (const program of ["/nowhere/oracled", "no-such-oracled"]) {
    await assert.rejects(TestDaemon.start({ program }), new RegExp(`${program} is not a program; .*ORACLED_BIN`));
  }
});

test("test_daemon_ends_and_its_files_are_removed_with_its_parent", async () => {
  const script = `
    import { TestDaemon } from "oracled-client/testing";
    const daemon = await TestDaemon.start({ program: ${JSON.stringify(PROGRAM)} });
    console.log(daemon.folder);
    await daemon.client.listRules();
    if (process.env.STAYS) setInterval(() => {}, 1000);`;
  // without a signal, the script ends although it does not stop the daemon
  for (const signal of ["SIGKILL", "SIGTERM", "SIGINT", undefined] as const) {
    const env = { ...process.env, ...(signal && { STAYS: "1" }) };
    const parent = spawn(process.execPath, ["--input-type=module", "-e", script], { env, stdio: ["ignore", "pipe", "inherit"] });
    const [printed] = (await once(parent.stdout, "data")) as [Buffer];
    const folder = printed.toString().trim();
    if (signal) assert((await readyStatus(folder)) === 200);
    if (signal) parent.kill(signal);
    for (const end = Date.now() + 10_000; existsSync(folder) && Date.now() < end; ) await sleep(20);
    assert(!existsSync(folder), `${folder} remains after ${signal}`);
    assert.equal(processesOf(folder), "", `a process remains after ${signal}`);
  }
});
