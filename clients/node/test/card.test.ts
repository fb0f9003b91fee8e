import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { CardError, OracledClient, ProblemError, ResponseError, verifyCard } from "oracled-client";
import { fakeOrder, fakeVerdict } from "oracled-client/testing";
import { GOOD, QUERY, ROOT, TestDaemon } from "./daemon.js";

let daemon: TestDaemon;
before(async () => (daemon = await TestDaemon.start("")));
after(() => daemon.stop());

async function cardOf(oracled: OracledClient, session: string): Promise<string> {
  const card = await oracled.readCard(session);
  assert(card.outcome === "delivered");
  return card.body;
}

/** The key in a card. A customer has it from another source. */
function keyOf(card: Buffer | string): string {
  return /<dt>Log key<\/dt><dd>([^<]+)</.exec(card.toString())?.[1] ?? "";
}

async function expectEachChangeIsDetected(card: Buffer, changes: number): Promise<void> {
  const key = keyOf(card);
  let seed = 53;
  const random = (below: number): number => (seed = (seed * 48271) % 0x7fffffff) % below;
  for (let number = 0; number < changes; number += 1) {
    const [changed, at] = [Buffer.from(card), random(card.length)];
    changed[at] = (changed[at] ?? 0) ^ (1 << random(8));
    await assert.rejects(verifyCard(changed, key), CardError, `byte ${at} is ${changed[at]}`);
  }
}

test("card_of_the_daemon_is_verified_only_unchanged_and_with_its_key", async () => {
  const oracled = new OracledClient({ socketPath: daemon.socketPath });
  const facts = ["Ice floats.", "A <b>sound</b> & simple plan."];
  const rules = ["RULE-PREC-004"] as const;
  const raw = '{"verdict":"GREEN","summary":"A <b>sound</b> & simple plan.","extra":[1.50,null,"\\u202e\\ud83d\\ude00"]}';
  await oracled.submitVerdict("card", { tier: "quick", query: QUERY, raw, facts, rules: [...rules] });
  await oracled.submitVerdict("plain", { tier: "quick", query: QUERY, raw: GOOD });
  const [card, plain] = [Buffer.from(await cardOf(oracled, "card")), await cardOf(oracled, "plain")];
  oracled.close();
  const verified = await verifyCard(card, ["another", keyOf(card)]);
  assert.equal(verified.sessionId, "card");
  assert.deepEqual(JSON.parse(verified.verdict ?? "").summary, "A <b>sound</b> & simple plan.");
  assert.deepEqual(verified.cosigned, []);
  assert.equal((await verifyCard(plain, keyOf(card))).verdict, GOOD);
  const other = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
  await assert.rejects(verifyCard(card, other), new RegExp(`not the expected one, ${other.replaceAll("+", "\\+")}$`));
  await assert.rejects(verifyCard(card, keyOf(card), { witnesses: [other] }), /has not cosigned/);
  await expectEachChangeIsDetected(card, 500);
});

test("session_without_a_card_is_an_order_or_an_error", async () => {
  const held = new OracledClient({ transport: () => fakeOrder("cs_1", "held") });
  assert.equal((await held.readCard("cs_1")).outcome, "held");
  const page = new OracledClient({ transport: () => ({ body: "<html>" }) });
  assert.equal((await page.readCard("cs_1")).body, "<html>");
  const verdict = new OracledClient({ transport: () => fakeVerdict("cs_1") });
  await assert.rejects(verdict.readCard("cs_1"), ResponseError);
  const oracled = new OracledClient({ socketPath: daemon.socketPath });
  await assert.rejects(oracled.readCard("unknown"), ProblemError);
  oracled.close();
});

test("key_is_trimmed_and_a_missing_one_is_a_type_error", async () => {
  const card = await readStored("card-2.html");
  assert.equal((await verifyCard(card, `${keyOf(card)}\n`)).sessionId, "facts");
  for (const key of [undefined, null, "", " \n", [], [""]] as never[]) {
    await assert.rejects(verifyCard(card, key), { name: "TypeError", message: /^`key` is .*`oraclectl log key`/ });
  }
  await assert.rejects(verifyCard(card, keyOf(card), { witnesses: [undefined as never] }), { name: "TypeError", message: /^`witnesses` is/ });
});

const readStored = (name: string): Promise<Buffer> => readFile(join(ROOT, "tests/stored", name));

test("stored_card_is_verified_and_each_change_is_detected", async () => {
  const card = await readStored("card-2.html");
  const verified = await verifyCard(card, keyOf(card));
  assert.equal(verified.sessionId, "facts");
  await expectEachChangeIsDetected(card, 1_000);
});

test("card_of_the_first_version_is_refused_by_name", async () => {
  const card = await readStored("card-1.html");
  await assert.rejects(verifyCard(card, keyOf(card)), { name: "CardError", message: /version 1/ });
});

test("text_with_a_surrogate_alone_is_a_card_error", async () => {
  const card = await readStored("card-2.html");
  await assert.rejects(verifyCard(`${card.toString()}\ud800`, keyOf(card)), CardError);
});

test("stored_card_of_an_erased_person_is_verified_and_each_change_is_detected", async () => {
  const card = await readStored("card-2-erased.html");
  const verified = await verifyCard(card, keyOf(card));
  assert.deepEqual([verified.sessionId, verified.verdict], ["facts", null]);
  assert.ok(!card.includes("Aruba"));
  await expectEachChangeIsDetected(card, 500);
});

test("stored_card_with_a_cosignature_is_verified_and_each_change_is_detected", async () => {
  const witness = "witness.example/w1+d9ed62c5+BO1JKMYo0cLG6ukDOJBZlWEpWSc6XGP5NjbBRhSshzfR";
  const card = await readStored("card-2-cosigned.html");
  const verified = await verifyCard(card, keyOf(card), { witnesses: [witness] });
  assert.deepEqual(verified.cosigned.map(({ name }) => name), ["witness.example/w1"]);
  assert.equal(JSON.parse(verified.verdict ?? "").summary, "The population of Aruba in 2015 was 101,001.");
  const other = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
  await assert.rejects(verifyCard(card, keyOf(card), { witnesses: [other] }), /has not cosigned/);
  await expectEachChangeIsDetected(card, 500);
});
