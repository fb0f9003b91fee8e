import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ConnectionError, OracledClient, ProblemError, RejectedError, TimeoutError } from "oracled-client";
import { GOOD, QUERY, ScriptedModel, TestDaemon } from "./daemon.js";

const model = new ScriptedModel();
let daemon: TestDaemon;
let oracled: OracledClient;

before(async () => {
  const url = await model.start();
  daemon = await TestDaemon.start(`
[model]
base_url = "${url}"
max_retries = 0
calls_per_minute = 1000000
[orders]
generations_max = 2
[gate]
hold = ["short_summary"]
unexpected_fields = "deliver"
`);
  oracled = new OracledClient({ socketPath: daemon.socketPath });
});

after(async () => {
  oracled.close();
  await daemon.stop();
  model.stop();
});

const order = { tier: "quick", query: QUERY } as const;

test("submission_of_a_good_verdict_is_delivered_and_replayed", async () => {
  const first = await oracled.submitVerdict("good", { ...order, raw: GOOD }, { requestId: "my-id-1" });
  assert.equal(first.outcome, "delivered");
  assert.equal(first.status, 201);
  assert.equal(first.requestId, "my-id-1");
  assert.deepEqual(first.body.verdict, JSON.parse(GOOD));
  const second = await oracled.submitVerdict("good", { ...order, verdict: { verdict: "RED", summary: "Another one entirely." } });
  assert.equal(second.outcome, "delivered");
  assert.equal(second.body.replayed, true);
  assert.equal(second.body.verdict.verdict, "GREEN");
  const read = await oracled.readVerdict("good", { proof: true });
  assert.equal(read.outcome, "delivered");
  assert.equal(read.headers["x-cache"], "HIT");
  assert.ok(read.body.proof);
});

test("rejection_has_the_problem_of_the_daemon", async () => {
  const rejected = oracled.submitVerdict("bad", { ...order, raw: '{"verdict":"GREEN"}' }, { requestId: "my-id-2" });
  await assert.rejects(rejected, (error) => {
    assert.ok(error instanceof RejectedError && error instanceof ProblemError);
    assert.deepEqual([error.code, error.status, error.requestId], ["crosscheck_rejected", 422, "my-id-2"]);
    assert.equal(error.retryAfter, undefined);
    assert.equal(error.problem.decision?.approved, false);
    assert.ok(error.detail.includes("bad"));
    return true;
  });
});

test("contradicting_submission_is_a_problem_and_not_a_rejection", async () => {
  await oracled.submitVerdict("mismatch", { ...order, raw: GOOD });
  await assert.rejects(oracled.submitVerdict("mismatch", { tier: "quick", query: "Sell wax?", raw: GOOD }), (error) => {
    assert.ok(error instanceof ProblemError && !(error instanceof RejectedError));
    assert.deepEqual([error.code, error.status, error.problem.mismatch], ["session_mismatch", 409, "query"]);
    return true;
  });
});

test("body_that_is_too_long_gets_the_problem_of_the_daemon", async () => {
  const long = oracled.submitVerdict("long", { ...order, raw: "x".repeat(4 << 20) });
  await assert.rejects(long, { name: "ProblemError", code: "body_too_large" });
});

test("delivered_text_keeps_all_digits_of_its_numbers", async () => {
  const raw = '{"verdict":"GREEN","summary":"A sound and simple plan.","price":0.12345678901234567890}';
  const delivered = await oracled.submitVerdict("digits", { ...order, raw });
  assert.ok(delivered.text.includes("0.12345678901234567890"));
});

test("order_is_delivered_within_the_call", async () => {
  const delivered = await oracled.submitVerdict("order", order);
  assert.equal(delivered.outcome, "delivered");
  assert.equal(delivered.body.verdict.summary, "A sound and simple plan.");
  const { body } = await oracled.readOrder("order");
  assert.deepEqual([body.state, body.attempts], ["delivered", 1]);
});

test("wait_for_a_queued_order_returns_its_verdict_after_a_restart", async () => {
  const answer = model.answer;
  model.answer = () => new Promise(() => {});
  const queued = await oracled.submitVerdict("restart", order, { respondAsync: true });
  assert.equal(queued.outcome, "ordered");
  assert.ok(queued.retryAfter !== undefined && queued.retryAfter >= 5);
  assert.equal(queued.headers.location, "/v1/orders/restart");
  await daemon.kill();
  model.answer = answer;
  // without retries, the first read fails before the daemon runs again
  const impatient = new OracledClient({ socketPath: daemon.socketPath, retries: 0 });
  const waiting = impatient.waitForVerdict("restart", { waitMs: 60_000 });
  await assert.rejects(impatient.readVerdict("restart"), ConnectionError);
  await daemon.run();
  const delivered = await waiting;
  impatient.close();
  assert.equal(delivered.outcome, "delivered");
});

test("wait_ends_at_its_deadline_with_the_order_or_by_its_signal", async (context) => {
  const answer = model.answer;
  context.after(() => (model.answer = answer));
  let finish = (_: string): void => {};
  model.answer = () => new Promise((resolve) => (finish = resolve));
  await oracled.submitVerdict("slow", order, { respondAsync: true });
  const began = Date.now();
  await assert.rejects(oracled.waitForVerdict("slow", { waitMs: 2_000 }), (error) => {
    assert.ok(error instanceof TimeoutError);
    assert.equal(error.order?.session_id, "slow");
    return true;
  });
  assert.ok(Date.now() - began < 2_500);
  const reason = new Error("the customer left");
  const abort = new AbortController();
  setTimeout(() => abort.abort(reason), 100);
  await assert.rejects(oracled.waitForVerdict("slow", { signal: abort.signal }), reason);
  finish(GOOD);
});

test("cancelled_order_gets_no_verdict", async (context) => {
  const answer = model.answer;
  context.after(() => (model.answer = answer));
  let finish = (_: string): void => {};
  model.answer = () => new Promise((resolve) => (finish = resolve));
  await oracled.submitVerdict("cancelled", order, { respondAsync: true });
  for (let times = 0; times < 2; times++) {
    assert.equal((await oracled.cancelOrder("cancelled")).body.state, "cancelled");
  }
  finish(GOOD);
  const cancelled = { name: "ProblemError", code: "order_cancelled", status: 409 };
  await assert.rejects(oracled.submitVerdict("cancelled", order), cancelled);
  await assert.rejects(oracled.waitForVerdict("cancelled"), cancelled);
});

test("failed_order_is_a_rejection", async (context) => {
  const answer = model.answer;
  context.after(() => (model.answer = answer));
  model.answer = () => '{"verdict":"GREEN"}';
  await assert.rejects(oracled.submitVerdict("failed", order), { name: "RejectedError", code: "order_failed", status: 422 });
  await assert.rejects(oracled.waitForVerdict("failed"), { name: "RejectedError", code: "order_failed" });
  const { body } = await oracled.listOrders({ state: "failed", limit: 10 });
  assert.deepEqual(body.items.map((one) => one.session_id), ["failed"]);
  assert.equal(body.next ?? null, null);
});

test("held_verdict_ends_a_wait_without_a_verdict", async () => {
  const dimension = { verdict: "GREEN", analysis: "It holds together." };
  const names = ["Stability", "Turbulence", "Change Rate", "Completion", "Curvature"];
  const breakdown = Object.fromEntries(names.map((name) => [name, dimension]));
  const strategy = { next_step: "Fill a jar.", alternative: "Sell wax.", tests: ["Ask ten neighbours.", "Sell one jar."] };
  const held = await oracled.submitVerdict("held", {
    tier: "strategy",
    query: QUERY,
    verdict: { verdict: "GREEN", summary: "Short.", breakdown, strategy },
  });
  assert.equal(held.outcome, "held");
  assert.equal(held.body.stop_cause, "policy");
  assert.equal(held.retryAfter, undefined);
  assert.equal((await oracled.waitForVerdict("held")).outcome, "held");
});

test("registered_session_is_new_once", async () => {
  const session = { ...order, original_verdict: "GREEN" } as const;
  const first = await oracled.registerSession("registered", session);
  assert.deepEqual([first.status, first.body.original_verdict], [201, "GREEN"]);
  assert.equal((await oracled.registerSession("registered", session)).status, 200);
});

test("check_returns_a_negative_decision_without_an_error", async () => {
  const { body } = await oracled.checkVerdict({ session_id: "check", ...order, raw: "{}" });
  assert.equal(body.approved, false);
});

test("ids_with_reserved_characters_stay_in_their_segment", async () => {
  for (const id of ["a/b", "..", "a?proof=1", "ä"]) {
    await assert.rejects(oracled.readVerdict(id), (error) => error instanceof ProblemError && error.code !== "not_found", id);
  }
});

test("submission_bridges_a_restart_of_the_daemon", async () => {
  await daemon.kill();
  const submitted = oracled.submitVerdict("bridged", { ...order, raw: GOOD });
  await sleep(1_500);
  await daemon.run();
  assert.equal((await submitted).outcome, "delivered");
});

test("missing_daemon_is_a_connection_error", async () => {
  const nowhere = new OracledClient({ socketPath: `${daemon.folder}/none.sock`, retries: 0 });
  await assert.rejects(nowhere.readVerdict("cs_1"), (error) => {
    assert.ok(error instanceof ConnectionError);
    assert.equal((error.cause as NodeJS.ErrnoException).code, "ENOENT");
    return true;
  });
});
