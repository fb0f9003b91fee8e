import { createHmac, timingSafeEqual } from "node:crypto";
import { invalidArgument, OracledError } from "./errors.js";
import type { VerdictLabel } from "./generated.js";

/** The data of an event about an order. */
export interface OrderEventData {
  application: string;
  session_id: string;
  attempts: number;
}

/** An event that the daemon reports. Later versions can add types and members. */
export type WebhookEvent =
  | { type: "order.delivered" | "order.cancelled"; timestamp: string; data: OrderEventData }
  | { type: "order.held" | "order.failed"; timestamp: string; data: OrderEventData & { cause: string } }
  | {
      type: "verdict.diverged";
      timestamp: string;
      data: {
        application: string;
        session_id: string;
        original_verdict: VerdictLabel | "UNKNOWN";
        regen_verdict: VerdictLabel;
        divergence_level: string;
      };
    }
  | {
      type: "verdict.recalled";
      timestamp: string;
      data: { application: string; session_id: string; oracle_id: string; run_id: string; result: string };
    }
  | { type: "review.opened"; timestamp: string; data: { review_id: string; workflow_id: string } }
  | { type: "run.held"; timestamp: string; data: { run_id: string; oracle_id: string; pipeline_id: string } }
  | { type: "circuit.opened" | "circuit.closed"; timestamp: string; data: { oracle_id: string; consecutive_failures: number } }
  | { type: "mail.dead_letter"; timestamp: string; data: { mail_id: string; kind: string; attempts: number } }
  | {
      type: "endpoint.paused";
      timestamp: string;
      data: { application?: string; endpoint?: string; failing_since: string };
    }
  | { type: "webhook.test"; timestamp: string; data: Record<string, unknown> };

/** The request is not a webhook of the daemon with this secret. Answer it with status 400. */
export class WebhookError extends OracledError {
  override readonly name = "WebhookError";
}

/** The headers of a request: those of Node, of `fetch`, or an object. Names can have any case. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

/** Settings of the verification. */
export interface VerifyOptions {
  /** The largest difference between the time of the request and the clock, in seconds. Default: 300. */
  toleranceS?: number;
  /** The current time. Default: the clock. */
  now?: Date;
}

/** A verified webhook. */
export interface VerifiedWebhook {
  /** The same for all attempts: ignore an id that was processed. */
  id: string;
  event: WebhookEvent;
}

/**
 * Verifies a webhook by the Standard Webhooks scheme, and returns its event.
 *
 * @param body the bytes of the body as they were received
 * @param secret `whsec_` and a key in base64; several while the secret is replaced
 * @throws {WebhookError} if the signature does not fit, or the time differs too much
 * @throws {TypeError} if an argument is invalid: the request is not at fault
 */
export function verifyWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  { toleranceS = 300, now = new Date() }: VerifyOptions = {},
): VerifiedWebhook {
  if (typeof body !== "string" && !(body instanceof Uint8Array)) {
    throw invalidArgument("body", body, "the raw bytes of the body are needed, a string or a Uint8Array, not the parsed JSON");
  }
  if (typeof headers !== "object" || headers === null) throw invalidArgument("headers", headers, "the headers of the request are needed");
  const keys = [secret].flat().map(keyOf);
  if (keys.length === 0) throw new TypeError("`secret` is an empty list (at least one secret is required)");
  const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => header(headers, name));
  if (!id || !timestamp || !signatures) throw new WebhookError("the headers `webhook-id`, `webhook-timestamp` and `webhook-signature` are required");
  const sentAt = /^\d{1,15}$/.test(timestamp) ? Number(timestamp) : NaN;
  const differenceS = Math.abs(now.getTime() / 1000 - sentAt);
  if (!(differenceS <= toleranceS)) {
    throw new WebhookError(`\`webhook-timestamp\` is ${timestamp.slice(0, 20)}, which differs from the clock by more than ${toleranceS} s`);
  }
  const given = signatures.split(" ").flatMap((signature) => (signature.startsWith("v1,") ? [Buffer.from(signature.slice(3), "base64")] : []));
  const isSigned = keys.some((key) => {
    const expected = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
    return given.some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
  });
  if (!isSigned) throw new WebhookError("no signature in `webhook-signature` fits; is the body unchanged, and the secret that of the endpoint?");
  const text = typeof body === "string" ? body : Buffer.from(body).toString();
  return { id, event: JSON.parse(text) as WebhookEvent };
}

function header(headers: WebhookHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const value = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  return typeof value === "string" ? value : undefined;
}

function keyOf(secret: unknown): Buffer {
  if (typeof secret !== "string") {
    throw new TypeError(`the secret is ${secret === null ? "null" : typeof secret} (\`whsec_\` and a key in base64 are required)`);
  }
  const key = Buffer.from(/^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret.trim())?.[1] ?? "", "base64");
  // the secret is not quoted
  if (key.length < 24 || key.length > 64) throw new TypeError("the secret is not `whsec_` and the base64 form of 24 to 64 bytes");
  return key;
}
