import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ConnectionError, type EvaluateTextRequest, OracledClient } from "oracled-client";
import { TestDaemon } from "./daemon.js";

let daemon: TestDaemon;
let oracled: OracledClient;

before(async () => {
  daemon = await TestDaemon.start("[limits]\nidle_s = 60\n");
  oracled = new OracledClient({ socketPath: daemon.socketPath });
});

after(async () => {
  oracled.close();
  await daemon.stop();
});

const text = (candidate: string): EvaluateTextRequest => ({ candidate_output: candidate, facts: ["Water boils at 100 C"] });

test("evaluation_of_an_unsupported_claim_fails", async () => {
  const { body } = await oracled.evaluateText(text("The moon is made of cheese."));
  assert.equal(body.verdict, "FAIL");
  const rules = await oracled.listRules();
  assert.ok(rules.body.rules.length >= body.rules.length);
});

test("batch_returns_one_result_for_each_text_in_order", async () => {
  const results = [];
  const invalid = { ...text(""), id: "invalid", rules: ["RULE-NONE"] } as unknown as EvaluateTextRequest;
  const requests = [text("Water boils at 100 C"), invalid, { ...text("The moon"), id: "third" }];
  for await (const result of oracled.evaluateTexts(requests)) {
    results.push([result.line, result.id, result.evaluation?.verdict, result.problem?.code]);
  }
  assert.deepEqual(results, [
    [1, undefined, "PASS", undefined],
    [2, "invalid", undefined, "invalid_request"],
    [3, "third", "FAIL", undefined],
  ]);
});

test("batch_without_texts_is_empty", async () => {
  for await (const result of oracled.evaluateTexts([])) assert.fail(`line ${result.line}`);
});

test("batch_returns_results_while_the_source_waits_for_them", async () => {
  let answered = 0;
  async function* source(): AsyncGenerator<EvaluateTextRequest> {
    for (let sent = 0; sent < 3; sent += 1) {
      // the next text depends on the results of all earlier ones
      while (answered < sent) await sleep(5);
      yield text(`Text ${sent}`);
    }
  }
  for await (const result of oracled.evaluateTexts(source())) answered = result.line;
  assert.equal(answered, 3);
});

test("slow_consumer_stops_the_source_of_a_large_batch", async () => {
  let sent = 0;
  function* source(): Generator<EvaluateTextRequest> {
    for (; sent < 50_000; sent += 1) yield { ...text("x".repeat(2_000)), id: `${sent}` };
  }
  const results = oracled.evaluateTexts(source());
  await results.next();
  await sleep(1_000);
  // about 1 MB of 100 MB is on its way
  assert.ok(sent < 5_000, `${sent} texts were taken`);
  await results.return();
  const taken = sent;
  await sleep(50);
  assert.equal(sent, taken);
});

test("end_of_the_consumer_closes_the_source", async () => {
  let closed = false;
  async function* source(): AsyncGenerator<EvaluateTextRequest> {
    try {
      for (;;) {
        yield text("Water");
        await sleep(1);
      }
    } finally {
      closed = true;
    }
  }
  for await (const result of oracled.evaluateTexts(source())) if (result.line === 3) break;
  for (const end = Date.now() + 10_000; !closed && Date.now() < end; ) await sleep(5);
  assert.ok(closed);
});

test("error_of_the_source_ends_the_batch_unchanged", async () => {
  const broken = new Error("the file of texts is broken");
  async function* source(): AsyncGenerator<EvaluateTextRequest> {
    yield text("Water");
    throw broken;
  }
  const drain = async (): Promise<void> => {
    for await (const _ of oracled.evaluateTexts(source()));
  };
  await assert.rejects(drain(), broken);
});

test("signal_ends_a_batch", async () => {
  const reason = new Error("enough");
  const abort = new AbortController();
  async function* source(): AsyncGenerator<EvaluateTextRequest> {
    for (;;) {
      yield text("Water");
      await sleep(1);
    }
  }
  const drain = async (): Promise<void> => {
    for await (const result of oracled.evaluateTexts(source(), { signal: abort.signal })) if (result.line === 5) abort.abort(reason);
  };
  await assert.rejects(drain(), reason);
});

test("slow_source_is_not_a_timeout", async () => {
  async function* source(): AsyncGenerator<EvaluateTextRequest> {
    yield text("Water");
    await sleep(1_500);
    yield text("Ice");
  }
  let received = 0;
  for await (const result of oracled.evaluateTexts(source(), { timeoutMs: 1_000 })) received = result.line;
  assert.equal(received, 2);
});

test("killed_daemon_ends_a_batch_with_an_error", async () => {
  const doomed = await TestDaemon.start("");
  const client = new OracledClient({ socketPath: doomed.socketPath });
  async function* source(): AsyncGenerator<EvaluateTextRequest> {
    for (;;) {
      yield text("Water");
      await sleep(1);
    }
  }
  const drain = async (): Promise<void> => {
    for await (const result of client.evaluateTexts(source())) if (result.line === 3) await doomed.kill();
  };
  await assert.rejects(drain(), ConnectionError);
  await doomed.stop();
});

test("stopping_daemon_ends_a_batch_with_an_error", async () => {
  const stopping = await TestDaemon.start("");
  const client = new OracledClient({ socketPath: stopping.socketPath });
  async function* source(): AsyncGenerator<EvaluateTextRequest> {
    yield text("Water");
    await sleep(60_000, undefined, { ref: false });
  }
  const results = client.evaluateTexts(source());
  await results.next();
  const ended = assert.rejects(results.next(), { name: "ProblemError", code: "draining" });
  await stopping.stop();
  await ended;
});
