import { type BatchResult, type QueryResult, runBatch, type VerifyResult } from "./batch.js";
import { ConnectionError, invalidArgument, ResponseError, TemporaryError, TimeoutError } from "./errors.js";
import type {
  CrosscheckDecision,
  CrosscheckRequest,
  Envelope,
  EvaluateTextRequest,
  ListPageOrderReport,
  OracleQuery,
  OrderReport,
  OrderState,
  ProvenanceRecord,
  QueryAnswer,
  RecordAnswer,
  RegisterSessionRequest,
  RegisterSessionResponse,
  RulesEvaluation,
  RulesResponse,
  SourceSummary,
  SubmitVerdictRequest,
  VerdictLabel,
  VerdictResponse,
  VerifyRequest,
} from "./generated.js";
import {
  type Answer,
  type CallOptions,
  checkTimeLimit,
  type ClientOptions,
  pause,
  Transport,
  unexpectedStatus,
} from "./transport.js";

/** The five dimensions of a verdict. */
export type VerdictDimension = "Stability" | "Turbulence" | "Change Rate" | "Completion" | "Curvature";

/** An approved verdict. The crosscheck guarantees these members; `gate.unexpected_fields = "deliver"` allows others. */
export interface Verdict {
  verdict: VerdictLabel;
  summary: string;
  /** In the tiers `full` and `strategy`. */
  breakdown?: Record<VerdictDimension, { verdict: VerdictLabel; analysis?: unknown }>;
  /** In the tier `strategy`. */
  strategy?: { next_step: string; alternative: string; tests: unknown[] };
}

/** A verdict that may be delivered. */
export interface Delivered extends Answer<VerdictResponse & { verdict: Verdict }> {
  outcome: "delivered";
}

/** The order is stored, and the daemon continues to generate the verdict. Read it again after `retryAfter` seconds. */
export interface Ordered extends Answer<OrderReport> {
  outcome: "ordered";
}

/** The order or its verdict waits for an operator. */
export interface Held extends Answer<OrderReport> {
  outcome: "held";
}

/** A verdict card, an HTML page: `body` has it. Save it, and verify it with `verifyCard`. */
export interface Card extends Answer<string> {
  outcome: "delivered";
}

/** The result of a submission or a read. All other results are errors, for example a `RejectedError`. */
export type VerdictOutcome = Delivered | Ordered | Held;

const POLL_AFTER_S = 5;
/** The least time of a read, and the longest one after the end of a wait. */
const READ_MIN_MS = 2_000;

/**
 * A client of the routes' socket. It reuses its connections, so create one for the whole process.
 *
 * Every method throws an `OracledError` if it has no result. Every method except the batches (`evaluateTexts`, `querySources`, `verifyValuesInBatch`) repeats its request after a broken
 * connection. This is safe: a repeated request adds at most entries to the audit log.
 */
export class OracledClient {
  readonly #transport: Transport;

  constructor(options: ClientOptions = {}) {
    this.#transport = new Transport(options);
  }

  /** Closes all connections. Calls in progress and later calls fail. */
  close(): void {
    this.#transport.close();
  }

  /**
   * Submits a verdict as `raw` or `verdict`, or orders one if both are missing. A session has one verdict: a further submission
   * returns the stored one. With `respondAsync` an order returns at once, and does not wait for the model.
   *
   * @throws {RejectedError} if the verdict was rejected; nothing is delivered
   * @throws {TimeoutError} if no response arrived in time. The verdict or its order may be stored.
   */
  async submitVerdict(
    sessionId: string,
    request: SubmitVerdictRequest,
    { respondAsync = false, ...options }: CallOptions & { respondAsync?: boolean } = {},
  ): Promise<VerdictOutcome> {
    const headers = respondAsync ? { prefer: "respond-async" } : {};
    const parts = { method: "POST", path: place("verdicts", "sessionId", sessionId), body: request, headers } as const;
    const answer = await this.#transport.call(parts, options).catch((error: unknown) => {
      if (!(error instanceof TimeoutError)) throw error;
      const remedy = "the verdict or its order may be stored: repeat the same call, or call `waitForVerdict`";
      throw new TimeoutError(`${error.message}; ${remedy}`, undefined, { cause: error });
    });
    return verdictOutcome(answer);
  }

  /**
   * Reads the verdict of a session. A lost verdict is regenerated, and `body` reports the difference: show its `disclaimer` or
   * `notice`. With `proof` the answer has the proof that the log contains the delivery.
   *
   * @throws {RejectedError} if the order of the session failed, or a regenerated verdict was rejected
   */
  async readVerdict(
    sessionId: string,
    { proof = false, ...options }: CallOptions & { proof?: boolean } = {},
  ): Promise<VerdictOutcome> {
    const path = place("verdicts", "sessionId", sessionId) + (proof ? "?proof=1" : "");
    return verdictOutcome(await this.#transport.call({ method: "GET", path }, options));
  }

  /**
   * Reads the verdict card of a session, as `readVerdict` reads its verdict.
   *
   * @throws {RejectedError} if the order of the session failed, or a regenerated verdict was rejected
   */
  async readCard(sessionId: string, options?: CallOptions): Promise<Card | Ordered | Held> {
    const path = `${place("verdicts", "sessionId", sessionId)}?card=1`;
    const answer = await this.#transport.call<unknown>({ method: "GET", path, isPage: true }, options);
    if (answer.status !== 202 && typeof answer.body !== "string") {
      throw new ResponseError("the response is no card; do the versions of daemon and client match?", answer.status, answer.requestId);
    }
    return verdictOutcome(answer) as Card | Ordered | Held;
  }

  /**
   * Reads the verdict of a session until it is delivered, or until its order is held. The daemon determines the time between the
   * reads (`Retry-After`, 5 s to 5 min). The last read is at the end of the wait. The wait continues while the daemon restarts.
   *
   * @param options `waitMs` is the time limit of the whole wait, by default 600,000 ms (10 min), before the last read, which takes at
   * most 2 s; `timeoutMs` is that of each read.
   * @throws {TimeoutError} if the last read has no verdict. It has the last `order`. The order continues.
   * @throws {RejectedError} if the order failed
   */
  async waitForVerdict(
    sessionId: string,
    { waitMs = 600_000, ...options }: CallOptions & { waitMs?: number } = {},
  ): Promise<Delivered | Held> {
    const deadline = performance.now() + checkTimeLimit("waitMs", waitMs);
    const readMs = options.timeoutMs ?? this.#transport.timeoutMs;
    let order: OrderReport | undefined;
    for (;;) {
      let [retryAfter, cause]: [number | undefined, unknown] = [undefined, undefined];
      try {
        const timeoutMs = Math.min(readMs, Math.max(deadline - performance.now(), READ_MIN_MS));
        const answer = await this.readVerdict(sessionId, { ...options, timeoutMs });
        if (answer.outcome !== "ordered") return answer;
        [order, retryAfter] = [answer.body, answer.retryAfter];
      } catch (error) {
        if (!(error instanceof TemporaryError || error instanceof ConnectionError || error instanceof TimeoutError)) throw error;
        [cause, retryAfter] = [error, error instanceof TemporaryError ? error.retryAfter : undefined];
      }
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) throw new TimeoutError(waitExpired(sessionId, waitMs, order, cause), order, { cause });
      await pause(Math.min((retryAfter ?? POLL_AFTER_S) * 1000, leftMs), options.signal);
    }
  }

  /** Judges a verdict without delivering it. The decision can be negative. */
  checkVerdict(request: CrosscheckRequest, options?: CallOptions): Promise<Answer<CrosscheckDecision>> {
    return this.#transport.call({ method: "POST", path: "/v1/crosscheck", body: request }, options);
  }

  /** Reads the order of a session, with its last attempts. */
  async readOrder(sessionId: string, options?: CallOptions): Promise<Answer<OrderReport>> {
    return this.#transport.call({ method: "GET", path: place("orders", "sessionId", sessionId) }, options);
  }

  /**
   * Cancels the order of a session, which then gets no verdict. The answer of a call in progress is discarded, and its cost counts.
   * It can be repeated.
   */
  async cancelOrder(sessionId: string, options?: CallOptions): Promise<Answer<OrderReport>> {
    return this.#transport.call({ method: "DELETE", path: place("orders", "sessionId", sessionId) }, options);
  }

  /** Lists a page of orders. `next` in the answer is the `after` of the next page. */
  listOrders(
    { after, limit, state, ...options }: CallOptions & { after?: string; limit?: number; state?: OrderState } = {},
  ): Promise<Answer<ListPageOrderReport>> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ after, limit, state })) if (value !== undefined && value !== null) query.set(name, `${value}`);
    return this.#transport.call({ method: "GET", path: `/v1/orders?${query}` }, options);
  }

  /** Registers a session, so that its verdict can be regenerated. The status is 201 if the session is new, otherwise 200. */
  async registerSession(
    sessionId: string,
    request: RegisterSessionRequest,
    options?: CallOptions,
  ): Promise<Answer<RegisterSessionResponse>> {
    return this.#transport.call({ method: "PUT", path: place("sessions", "sessionId", sessionId), body: request }, options);
  }

  /** Lists the rules. */
  listRules(options?: CallOptions): Promise<Answer<RulesResponse>> {
    return this.#transport.call({ method: "GET", path: "/v1/rules" }, options);
  }

  /** Checks a text against facts. Only the verdict `PASS` is a pass. */
  evaluateText(request: EvaluateTextRequest, options?: CallOptions): Promise<Answer<RulesEvaluation>> {
    return this.#transport.call({ method: "POST", path: "/v1/rules/evaluate", body: request }, options);
  }

  /**
   * Checks many texts, and returns one result for each, in the same order, while further texts are sent. An invalid text gets a
   * `problem`. A batch is not retried. `timeoutMs` limits the wait for the next result. The daemon ends a
   * batch whose source or consumer stops for 60 s (`limits.idle_s`).
   *
   * @throws {OracledError} if a text has no result. An error of `requests` is thrown unchanged.
   */
  evaluateTexts(
    requests: Iterable<EvaluateTextRequest> | AsyncIterable<EvaluateTextRequest>,
    options: CallOptions = {},
  ): AsyncGenerator<BatchResult, void, undefined> {
    return runBatch(this.#transport, ["/v1/rules/evaluate:batch", "evaluation"], requests, options);
  }

  /** Queries a source. Numbers and dates in the answer are strings with all their digits. */
  querySource(request: OracleQuery, options?: CallOptions): Promise<Answer<QueryAnswer>> {
    return this.#transport.call({ method: "POST", path: "/v1/query", body: request }, options);
  }

  /** Sends many queries, and returns one result for each, in the same order, like `evaluateTexts`. */
  querySources(
    requests: Iterable<OracleQuery> | AsyncIterable<OracleQuery>,
    options: CallOptions = {},
  ): AsyncGenerator<QueryResult, void, undefined> {
    return runBatch(this.#transport, ["/v1/query:batch", "answer"], requests, options);
  }

  /** Lists the sources. */
  listSources(options?: CallOptions): Promise<Answer<SourceSummary[]>> {
    return this.#transport.call({ method: "GET", path: "/v1/sources" }, options);
  }

  /** Reads a record of a source. */
  async readRecord(recordId: string, options?: CallOptions): Promise<Answer<RecordAnswer>> {
    return this.#transport.call({ method: "GET", path: place("records", "recordId", recordId) }, options);
  }

  /** Reads the provenance of a record. */
  async readProvenance(recordId: string, options?: CallOptions): Promise<Answer<ProvenanceRecord>> {
    return this.#transport.call({ method: "GET", path: `${place("records", "recordId", recordId)}/provenance` }, options);
  }

  /**
   * Compares the values of several sources. Only an axis of the kind `authoritative` has a value. If the `kind` of the envelope is
   * `provisional`, the decision is pending: read it with `readVerification` after `retryAfter` seconds.
   */
  verifyValues(request: VerifyRequest, options?: CallOptions): Promise<Answer<Envelope>> {
    return this.#transport.call({ method: "POST", path: "/v1/verify", body: request }, options);
  }

  /** Decides many questions, and returns one result for each, in the same order, like `evaluateTexts`. */
  verifyValuesInBatch(
    requests: Iterable<VerifyRequest> | AsyncIterable<VerifyRequest>,
    options: CallOptions = {},
  ): AsyncGenerator<VerifyResult, void, undefined> {
    return runBatch(this.#transport, ["/v1/verify:batch", "envelope"], requests, options);
  }

  /** Reads the envelope of an earlier verification. */
  async readVerification(executionId: string, options?: CallOptions): Promise<Answer<Envelope>> {
    return this.#transport.call({ method: "GET", path: place("verify", "executionId", executionId) }, options);
  }
}

/** The message about a wait without a verdict: the time, the state of the order, and why it has no verdict yet. */
function waitExpired(sessionId: string, waitMs: number, order: OrderReport | undefined, cause: unknown): string {
  const state = order ? `its order is ${order.state} (attempts: ${order.attempts})` : "the state of its order is unknown";
  const failed = order?.last_attempts.findLast((attempt) => attempt.outcome && attempt.cause);
  const attempt = failed ? `; the last attempt: ${failed.outcome}: ${failed.cause}` : "";
  const read = cause instanceof Error ? `; the last read: ${cause.message}` : "";
  return `session ${sessionId} has no verdict within ${waitMs / 1000} s; ${state}${attempt}${read}`;
}

/** The path of an id in a collection. `name` is that of the argument. */
function place(collection: string, name: string, id: string): string {
  // `undefined` would become the id of one session for all callers
  if (typeof id !== "string" || id === "") throw invalidArgument(name, id, "a non-empty string is required");
  return `/v1/${collection}/${encodeURIComponent(id)}`;
}

/** The outcome of a submission or a read, by its status. */
function verdictOutcome(answer: Answer<unknown>): VerdictOutcome {
  switch (answer.status) {
    case 200:
    case 201:
      return { outcome: "delivered", ...(answer as Answer<Delivered["body"]>) };
    case 202: {
      const ordered = answer as Answer<OrderReport>;
      return { outcome: ordered.body.state === "held" ? "held" : "ordered", ...ordered };
    }
    default:
      throw unexpectedStatus(answer);
  }
}
