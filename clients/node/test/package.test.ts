import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import type { BatchResult, CrosscheckRequest, EvaluateTextRequest, OracledClient, ProblemCode, SubmitVerdictRequest, VerdictOutcome } from "oracled-client";
import { PACKAGE, ROOT } from "./daemon.js";

test("version_is_that_of_the_workspace", async () => {
  const cargo = await readFile(join(ROOT, "Cargo.toml"), "utf8");
  const version = /^\[workspace\.package\][^[]*?^version = "([^"]+)"/ms.exec(cargo)?.[1];
  const manifest = JSON.parse(await readFile(join(PACKAGE, "package.json"), "utf8"));
  assert.equal(manifest.version, version);
  assert.equal(manifest.dependencies, undefined);
});

test("generated_types_are_up_to_date", () => {
  execFileSync(process.execPath, ["scripts/generate.mjs", "--check"], { cwd: PACKAGE });
});

test("commonjs_project_can_require_the_package", { skip: !("require_module" in process.features) }, async () => {
  const { client } = createRequire(import.meta.url)("./commonjs.cjs") as { client: OracledClient };
  assert.deepEqual((await client.listRules()).body.rules, []);
});

// compiled, not run: each outcome has only its own members
export function show(outcome: VerdictOutcome, result: BatchResult): string {
  // @ts-expect-error the outcome may be an order
  void outcome.body.verdict;
  // @ts-expect-error the result may be a problem
  void result.evaluation.verdict;
  switch (outcome.outcome) {
    case "delivered":
      return outcome.body.verdict.summary;
    case "ordered":
    case "held":
      return outcome.body.state;
  }
}

export const code: ProblemCode = "crosscheck_rejected";
// @ts-expect-error a tier is one of three words
export const wrongTier: SubmitVerdictRequest = { tier: "platinum", query: "Sell honey?" };
// @ts-expect-error an unknown field is an error
export const wrongText: EvaluateTextRequest = { candidate_output: "Ice melts", fakts: [] };
// @ts-expect-error a check needs a query
export const wrongCheck: CrosscheckRequest = { session_id: "cs_1", tier: "quick" };
