import { ConnectionError, ProblemError, TimeoutError, type VerdictOutcome } from "oracled-client";
import { oracled, SESSION_ID } from "../../../../oracled";

// the client needs the Unix socket, which the edge runtime does not have
export const runtime = "nodejs";
export const dynamic = "force-dynamic";

type Context = { params: Promise<{ id: string }> };

/** Orders the verdict of a session. A repeated request returns the same verdict. */
export async function POST(request: Request, { params }: Context): Promise<Response> {
  const { id } = await params;
  const body: unknown = await request.json().catch(() => undefined);
  const query = typeof body === "object" && body !== null && "query" in body ? body.query : undefined;
  if (!SESSION_ID.test(id) || typeof query !== "string") return Response.json({ error: "invalid_request" }, { status: 400 });
  // read from your payment service that the session is paid, and its tier; never take the tier from the browser
  const tier = "full";
  return answer(() => oracled.submitVerdict(id, { tier, query }, { signal: request.signal }));
}

/** Reads the verdict of a session. */
export async function GET(request: Request, { params }: Context): Promise<Response> {
  const { id } = await params;
  if (!SESSION_ID.test(id)) return Response.json({ error: "invalid_request" }, { status: 400 });
  return answer(() => oracled.readVerdict(id, { signal: request.signal }));
}

async function answer(call: () => Promise<VerdictOutcome>): Promise<Response> {
  try {
    const outcome = await call();
    if (outcome.outcome === "delivered") {
      const { verdict, disclaimer, notice } = outcome.body;
      return Response.json({ verdict, note: disclaimer ?? notice });
    }
    return Response.json({ state: outcome.outcome }, { status: 202, headers: retry(outcome.retryAfter) });
  } catch (error) {
    if (error instanceof ProblemError) {
      return Response.json({ error: error.code }, { status: error.status, headers: retry(error.retryAfter) });
    }
    if (error instanceof ConnectionError || error instanceof TimeoutError) {
      return Response.json({ error: "unavailable" }, { status: 503, headers: retry(5) });
    }
    throw error;
  }
}

function retry(seconds: number | undefined): Record<string, string> {
  return seconds === undefined ? {} : { "retry-after": `${seconds}` };
}
