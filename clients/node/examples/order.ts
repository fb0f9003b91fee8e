// Orders a verdict and waits for it. `npm run check` compiles this file to build/examples/order.js.
import { OracledClient, ProblemError, RejectedError } from "oracled-client";

const oracled = new OracledClient();
const query = "Put all of my retirement savings into one friend's restaurant.";
try {
  let outcome = await oracled.submitVerdict("cs_1", { tier: "full", query });
  if (outcome.outcome === "ordered") outcome = await oracled.waitForVerdict("cs_1", { waitMs: 10 * 60_000 });
  if (outcome.outcome === "delivered") console.log("deliver", outcome.body.verdict);
  else console.log("an operator must decide:", outcome.body.stop_cause);
} catch (error) {
  if (error instanceof RejectedError) console.log("rejected:", error.code, error.detail);
  else if (error instanceof ProblemError) console.log("not delivered:", error.code, "- retry after", error.retryAfter ?? "never");
  else throw error;
} finally {
  oracled.close();
}
