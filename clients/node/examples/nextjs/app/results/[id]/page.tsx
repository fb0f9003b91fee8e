import { notFound } from "next/navigation";
import { ConnectionError, ProblemError, TemporaryError, TimeoutError } from "oracled-client";
import { oracled, SESSION_ID } from "../../../oracled";

export const runtime = "nodejs";
export const dynamic = "force-dynamic";

/** The results page of a session. */
export default async function ResultsPage({ params }: { params: Promise<{ id: string }> }) {
  const { id } = await params;
  if (!SESSION_ID.test(id)) notFound();
  const outcome = await oracled.readVerdict(id).catch((error: unknown) => {
    if (error instanceof TemporaryError || error instanceof ConnectionError || error instanceof TimeoutError) return undefined;
    if (error instanceof ProblemError && error.status === 404) notFound();
    throw error;
  });
  if (outcome?.outcome !== "delivered") return <p>Your verdict is not available yet. Reload this page in a minute.</p>;
  const { verdict, disclaimer, notice } = outcome.body;
  return (
    <main>
      <h1>{verdict.verdict}</h1>
      <p>{verdict.summary}</p>
      <dl>
        {Object.entries(verdict.breakdown ?? {}).map(([dimension, part]) => (
          <div key={dimension}>
            <dt>
              {dimension}: {part.verdict}
            </dt>
            <dd>{typeof part.analysis === "string" ? part.analysis : ""}</dd>
          </div>
        ))}
      </dl>
      <small>{disclaimer ?? notice}</small>
    </main>
  );
}
