import { inspect } from "node:util";
import type { OrderReport, ProblemCode, ProblemDocument } from "./generated.js";

/** Base class of all errors of this client. An aborted call throws the `reason` of its signal instead. */
export class OracledError extends Error {
  override readonly name: string = "OracledError";
}

/** The daemon returned an error: a problem document (RFC 9457). */
export class ProblemError extends OracledError {
  override readonly name: string = "ProblemError";
  /** The stable code, for programs. */
  readonly code: ProblemCode;
  /** The HTTP status. */
  readonly status: number;
  /** The fault, its value, and what is allowed. */
  readonly detail: string;

  constructor(
    /** The whole document, for example with the `decision` of a rejection. */
    readonly problem: ProblemDocument,
    /** The id of the request, which is also in the daemon's log. */
    readonly requestId: string,
    /** The time before the next attempt, in seconds; missing if it is unknown, or a retry does not help. */
    readonly retryAfter: number | undefined,
  ) {
    super(`${problem.code}: ${problem.detail}`);
    this.code = problem.code;
    this.status = problem.status;
    this.detail = problem.detail;
  }
}

/**
 * The verdict was rejected by the crosscheck, the rules or the policy, or its order failed. Nothing is delivered. `problem` has
 * the `decision`, the `evaluation` or the `causes`. A rejected regeneration has `retryAfter`.
 */
export class RejectedError extends ProblemError {
  override readonly name = "RejectedError";
}

/** An error that can end without a change of the request. `retryAfter` is the time before the next attempt, in seconds. */
export class TemporaryError extends ProblemError {
  override readonly name = "TemporaryError";
  declare readonly retryAfter: number;
}

/**
 * No complete response arrived: the daemon is not running, its socket is not permitted, or the connection broke. `cause` has the
 * error of the connection. The daemon may have stored the result, so repeat the same request.
 */
export class ConnectionError extends OracledError {
  override readonly name = "ConnectionError";
}

/** The time limit of a call or a wait has expired. The daemon may have stored the result, or continue an order. */
export class TimeoutError extends OracledError {
  override readonly name = "TimeoutError";

  constructor(
    message: string,
    /** The last known state of the order, if `waitForVerdict` read one. */
    readonly order?: OrderReport,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The response does not conform to the API: the server is not oracled, is damaged, or is a version that this client cannot read. */
export class ResponseError extends OracledError {
  override readonly name = "ResponseError";

  constructor(
    message: string,
    /** The HTTP status. */
    readonly status: number,
    /** The id of the request; empty if the response has none. */
    readonly requestId: string,
  ) {
    super(message);
  }
}

/** The error about an argument whose type may not be checked by TypeScript. */
export function invalidArgument(name: string, value: unknown, required: string): TypeError {
  return new TypeError(`\`${name}\` is ${inspect(value, { depth: -1, maxStringLength: 40 })} (${required})`);
}

const REJECTIONS: readonly string[] = [
  "crosscheck_rejected",
  "rules_rejected",
  "policy_rejected",
  "order_failed",
] satisfies ProblemCode[];

/** The error of the class that fits the problem. */
export function problemError(problem: ProblemDocument, requestId: string, retryAfter: number | undefined): ProblemError {
  if (REJECTIONS.includes(problem.code)) return new RejectedError(problem, requestId, retryAfter);
  if (retryAfter !== undefined) return new TemporaryError(problem, requestId, retryAfter);
  return new ProblemError(problem, requestId, retryAfter);
}
