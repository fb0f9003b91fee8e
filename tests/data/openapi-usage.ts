// Uses the types that openapi-typescript makes of both OpenAPI documents. tests/openapi.sh compiles this file.
import type { components as Control, operations as Administration } from "./control.js";
import type { components, operations, paths } from "./routes.js";

type Submission = components["schemas"]["SubmitVerdictRequest"];
type Verdict = components["schemas"]["VerdictResponse"];
type Rejection =
  operations["submit_verdict"]["responses"][422]["content"]["application/problem+json"];
type Post = paths["/v1/verdicts/{session_id}"]["post"];

export const submission: Submission = { tier: "quick", query: "Sell honey?", raw: "{}" };

// @ts-expect-error a tier is one of three words
export const wrongTier: Submission = { tier: "platinum", query: "Sell honey?" };

// @ts-expect-error an unknown field is an error
export const wrongField: Submission = { tier: "quick", query: "Sell honey?", verdit: {} };

export function describe(verdict: Verdict): string {
  const label: "GREEN" | "AMBER" | "RED" | "NULL" | null | undefined = verdict.decision.verdict_label;
  return `${verdict.session_id}: ${label ?? "none"}, cached at ${verdict.cached_at}`;
}

export function remedy(rejection: Rejection): string {
  switch (rejection.code) {
    case "crosscheck_rejected":
      return rejection.decision?.flags.join(", ") ?? "";
    case "rules_rejected":
      return rejection.evaluation?.rules.map((rule) => rule.rule).join(", ") ?? "";
    case "policy_rejected":
      return rejection.causes?.join(", ") ?? "";
    case "query_too_costly":
    case "order_failed":
      return rejection.detail;
  }
}

export function waiting(order: components["schemas"]["OrderReport"]): string | undefined {
  switch (order.state) {
    case "queued":
    case "generating":
    case "held":
      return `${order.attempts} attempts, the next at ${order.next_attempt_at ?? "once"}`;
    case "delivered":
    case "failed":
      return undefined;
  }
}

export function next(page: Control["schemas"]["ListPage_RunReport"]): string | null | undefined {
  const states = page.items.map((report) => report.run.state === "held");
  return states.length > 0 ? page.next : null;
}

type Runs = NonNullable<Administration["list_runs"]["parameters"]["query"]>;
export const query: Runs = { oracle_id: "world-bank", limit: 10 };
export type Session = Post["parameters"]["path"]["session_id"];
export const session: Session = "cs_1";

export function source(document: Control["schemas"]["DocumentContent"]): string {
  return "workflow_id" in document ? document.workflow_id : "another kind";
}
