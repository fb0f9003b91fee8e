import { once } from "node:events";
import { existsSync } from "node:fs";
import http from "node:http";
import { isAbsolute, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ConnectionError, invalidArgument, OracledError, problemError, ResponseError, TemporaryError, TimeoutError } from "./errors.js";
import type { ProblemDocument } from "./generated.js";

/** Settings of a client. All are optional. */
export interface ClientOptions {
  /** Path of the routes' socket. Default: the variable `ORACLED_SOCKET`, or the first that exists of `/run/oracled/oracled.sock` and those of a daemon of this user. */
  socketPath?: string;
  /** Time limit of a call with its retries, in milliseconds. Default: 35,000, because the daemon may take 30 s. */
  timeoutMs?: number;
  /** The most retries of a call after a broken connection or a `TemporaryError`. Default: 2. With 0, no restart of the daemon is bridged. */
  retries?: number;
  /** Answers each call in place of the daemon, for unit tests. An error that it throws is thrown by the call. Batches need a daemon. */
  transport?: (request: FakeRequest) => FakeResponse | Promise<FakeResponse>;
}

/** A call that `transport` answers. */
export interface FakeRequest {
  method: RequestParts["method"];
  path: string;
  body?: unknown;
}

/** The answer of `transport`. Without a `content-type`, it is JSON; a text for `readCard` is a card. */
export interface FakeResponse {
  /** Default: 200. */
  status?: number;
  body: unknown;
  headers?: Record<string, string>;
}

/** Settings of one call. */
export interface CallOptions {
  /** Aborts the call, which then throws the signal's `reason`. */
  signal?: AbortSignal | undefined;
  /** Time limit of this call, in milliseconds. Default: that of the client. */
  timeoutMs?: number | undefined;
  /** `X-Request-Id` of the call, 1 to 128 visible ASCII characters. Default: the daemon creates one. */
  requestId?: string | undefined;
}

/** A successful response. */
export interface Answer<Body> {
  body: Body;
  /** The body as it was received, with all digits of its numbers. */
  text: string;
  /** The HTTP status. */
  status: number;
  /** The id of the request, which is also in the daemon's log. */
  requestId: string;
  /** The time after which the caller should ask again, in seconds, if the daemon requests that. */
  retryAfter?: number;
  /** The response's headers, with names in lower case. */
  headers: http.IncomingHttpHeaders;
}

/** A request without its connection. */
export interface RequestParts {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  body?: unknown;
  headers?: http.OutgoingHttpHeaders;
  /** The answer can be an HTML page. */
  isPage?: boolean;
}

/** A daemon that cannot be reached may be restarting. It is tried again for this time, at these intervals. */
const RESTART_MS = 5_000;
const RECONNECT_MS = 200;

/** The longest time that a timer of Node can measure. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Checks a time limit. Without the check, a timer with a longer time would expire at once. */
export function checkTimeLimit(name: string, ms: number): number {
  if (ms > 0 && ms <= TIMER_MAX_MS) return ms;
  throw new RangeError(`\`${name}\` is ${ms} (above 0, at most ${TIMER_MAX_MS} allowed)`);
}

/** Sends requests over one Unix socket, and reuses its connections. */
export class Transport {
  readonly socketPath: string;
  readonly timeoutMs: number;
  readonly #retries: number;
  readonly #fake: ClientOptions["transport"];
  readonly #isDefaultSocket: boolean;
  #isClosed = false;
  // the daemon closes idle connections after `limits.idle_s` (60 s); a connection that is closed here first cannot break a call
  readonly #agent = new http.Agent({ keepAlive: true, timeout: 5_000 });

  constructor({ socketPath, timeoutMs = 35_000, retries = 2, transport }: ClientOptions) {
    // with an empty path Node would connect to TCP port 80
    if (socketPath === "") throw new TypeError("`socketPath` is empty; omit it for the default socket");
    if (!Number.isSafeInteger(retries) || retries < 0) throw new RangeError(`\`retries\` is ${retries} (0 or more allowed)`);
    const given = socketPath ?? (process.env.ORACLED_SOCKET || undefined);
    this.socketPath = given ?? findSocket();
    this.#isDefaultSocket = given === undefined;
    this.timeoutMs = checkTimeLimit("timeoutMs", timeoutMs);
    this.#retries = retries;
    this.#fake = transport;
  }

  /** Closes all connections; calls in progress and later calls fail. */
  close(): void {
    this.#isClosed = true;
    this.#agent.destroy();
  }

  /** Sends a request and reads its JSON response. A repeated request adds at most entries to the audit log, so every call is retried. */
  async call<Body>(parts: RequestParts, options: CallOptions = {}): Promise<Answer<Body>> {
    if ("body" in parts && (typeof parts.body !== "object" || parts.body === null)) {
      throw invalidArgument("request", parts.body, "an object is required");
    }
    const limitMs = checkTimeLimit("timeoutMs", options.timeoutMs ?? this.timeoutMs);
    const began = performance.now();
    const deadline = began + limitMs;
    const body = parts.body === undefined ? undefined : encodeJson(parts.body);
    let attempt = 0;
    let restartEnds: number | undefined;
    const failures: unknown[] = [];
    for (;;) {
      try {
        return await this.#exchange<Body>(parts, body, options, deadline, limitMs);
      } catch (error) {
        let pauseMs: number | undefined;
        if (isUnreachable(error) && this.#retries > 0) {
          restartEnds ??= performance.now() + RESTART_MS;
          if (performance.now() < restartEnds) pauseMs = RECONNECT_MS;
        } else if (attempt < this.#retries) {
          pauseMs = pauseBeforeRetry(error, attempt);
          attempt += 1;
        }
        if (pauseMs === undefined || performance.now() + pauseMs >= deadline) throw withLastFailure(error, failures, began);
        failures.push(error);
        await pause(pauseMs, options.signal);
      }
    }
  }

  /** Opens a request; the caller ends it. */
  open({ method, path, headers }: RequestParts, { signal, requestId }: CallOptions): http.ClientRequest {
    signal?.throwIfAborted();
    this.#checkOpen();
    if (this.#fake) throw new TypeError("`transport` answers no batch; use a `TestDaemon`");
    const request = http.request({
      socketPath: this.socketPath,
      agent: this.#agent,
      method,
      path,
      headers: { host: "oracled", ...headers, ...(requestId !== undefined && { "x-request-id": requestId }) },
      ...(signal && { signal }),
    });
    // an error after the response is also an error of the response's body
    request.on("error", () => {});
    return request;
  }

  /** The error to throw after `error` has ended a request. */
  failure(error: unknown, signal: AbortSignal | undefined): unknown {
    if (signal?.aborted) return signal.reason;
    if (error instanceof OracledError || !(error instanceof Error)) return error;
    const { code = error.message, syscall }: NodeJS.ErrnoException = error;
    const fault =
      syscall === "connect"
        ? `cannot connect to ${this.socketPath}: ${code} (${this.#isDefaultSocket ? "ORACLED_SOCKET is not set, so the default socket was used; " : ""}check that oracled runs, that its socket has this path, and that this user may open it)`
        : `the connection to ${this.socketPath} broke: ${error.message}`;
    return new ConnectionError(`no complete response: ${fault}`, { cause: error });
  }

  async #exchange<Body>(
    parts: RequestParts,
    body: string | undefined,
    options: CallOptions,
    deadline: number,
    limitMs: number,
  ): Promise<Answer<Body>> {
    if (this.#fake) return fakeAnswer<Body>(parts, options, await this.#askFake(this.#fake, parts, options, deadline, limitMs));
    const json = body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const request = this.open({ ...parts, headers: { ...json, ...parts.headers } }, options);
    let timeout: TimeoutError | undefined;
    const timer = setTimeout(() => {
      timeout = this.#timedOut(limitMs);
      request.destroy(timeout);
    }, Math.max(deadline - performance.now(), 1));
    try {
      const responded = once(request, "response") as Promise<[http.IncomingMessage]>;
      request.end(body);
      const [response] = await responded;
      return parseAnswer<Body>(response, await readText(response), parts.isPage);
    } catch (error) {
      throw timeout ?? this.failure(error, options.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  /** The answer of the fake, unless the time limit or the signal ends the wait for it. */
  async #askFake(
    fake: NonNullable<ClientOptions["transport"]>,
    parts: RequestParts,
    { signal }: CallOptions,
    deadline: number,
    limitMs: number,
  ): Promise<FakeResponse> {
    signal?.throwIfAborted();
    this.#checkOpen();
    let stop = (): void => {};
    const ended = new Promise<never>((_, reject) => {
      const timer = setTimeout(() => reject(this.#timedOut(limitMs)), Math.max(deadline - performance.now(), 1));
      const abort = (): void => reject(signal?.reason);
      signal?.addEventListener("abort", abort);
      stop = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
      };
    });
    try {
      return await Promise.race([fake(parts), ended]);
    } finally {
      stop();
    }
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new OracledError("the client is closed; create another one");
  }

  #timedOut(limitMs: number): TimeoutError {
    return new TimeoutError(`no complete response from ${this.socketPath} within ${limitMs} ms`);
  }
}

/** The socket of `oraclectl`, too: systemd's if it exists, otherwise that of a daemon of this user. */
function findSocket(): string {
  const ofSystemd = "/run/oracled/oracled.sock";
  const { HOME = "/", XDG_RUNTIME_DIR = "", XDG_STATE_HOME = "" } = process.env;
  const folders = [XDG_RUNTIME_DIR, XDG_STATE_HOME, join(HOME, ".local/state")].filter((folder) => isAbsolute(folder));
  const sockets = [ofSystemd, ...folders.map((folder) => join(folder, "oracled/oracled.sock"))];
  return sockets.find((path) => existsSync(path)) ?? ofSystemd;
}

/** The answer of a fake transport. As with the daemon, a read has status 200 and not 201, and a report of an order 200 and not 202. */
function fakeAnswer<Body>(
  { method, path, isPage }: RequestParts,
  { requestId }: CallOptions,
  { status: given = 200, body, headers }: FakeResponse,
): Answer<Body> {
  const isReport = (given === 201 && method === "GET") || (given === 202 && path.startsWith("/v1/orders/"));
  const status = isReport ? 200 : given;
  const page = isPage && typeof body === "string" ? body : undefined;
  const type = page === undefined ? "application/json" : "text/html";
  const received = { "content-type": type, "x-request-id": requestId ?? "fake", ...headers };
  return parseAnswer<Body>({ statusCode: status, headers: received }, page ?? encodeJson(body), isPage);
}

/** Waits, unless the signal aborts the wait. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(ms, undefined, signal && { signal });
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
}

/** The JSON text of a value. A number that JSON cannot represent, or whose digits may already be lost, is an error. */
export function encodeJson(value: unknown): string {
  return JSON.stringify(value, (key, member: unknown) => {
    if (typeof member === "number" && (!Number.isFinite(member) || (Number.isInteger(member) && !Number.isSafeInteger(member)))) {
      throw new RangeError(`\`${key}\` is ${member}, which a number cannot hold exactly; pass its digits as a string`);
    }
    return member;
  });
}

/** Reads a whole body. */
export async function readText(response: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/**
 * The answer in a response.
 *
 * @throws {ProblemError} if the response has a problem document
 * @throws {ResponseError} if it has neither a problem nor a successful status with JSON
 */
export function parseAnswer<Body>(
  { statusCode: status = 0, headers }: { statusCode?: number | undefined; headers: http.IncomingHttpHeaders },
  text: string,
  isPage = false,
): Answer<Body> {
  const requestId = String(headers["x-request-id"] ?? "");
  const retryAfter = /^\d+$/.test(headers["retry-after"] ?? "") ? Number(headers["retry-after"]) : undefined;
  let body: unknown;
  try {
    body = isPage && headers["content-type"]?.startsWith("text/html") ? text : JSON.parse(text);
  } catch {
    throw new ResponseError(`the response with status ${status} is not JSON; is another server on the socket?`, status, requestId);
  }
  if (isProblem(body) && headers["content-type"]?.startsWith("application/problem+json")) {
    throw problemError(body, requestId, retryAfter);
  }
  if (status < 200 || status > 299) throw unexpectedStatus({ status, requestId });
  return { body: body as Body, text, status, requestId, ...(retryAfter !== undefined && { retryAfter }), headers };
}

/** The error about a status that the route does not have. */
export function unexpectedStatus({ status, requestId }: Pick<Answer<unknown>, "status" | "requestId">): ResponseError {
  return new ResponseError(`status ${status} is unexpected; do the versions of daemon and client match?`, status, requestId);
}

function isProblem(body: unknown): body is ProblemDocument {
  return typeof body === "object" && body !== null && "code" in body && typeof body.code === "string";
}

function isUnreachable(error: unknown): boolean {
  return error instanceof ConnectionError && (error.cause as NodeJS.ErrnoException | undefined)?.syscall === "connect";
}

/** The error of a call after these failures: a timeout alone does not show why earlier attempts failed. */
function withLastFailure(error: unknown, failures: unknown[], began: number): unknown {
  const last = failures.at(-1);
  if (!(error instanceof TimeoutError && last instanceof Error)) return error;
  const attempts = `after ${failures.length + 1} attempts in ${Math.round(performance.now() - began)} ms`;
  return new TimeoutError(`${error.message}, ${attempts}; the last failure: ${last.message}`, undefined, { cause: last });
}

/** The time before a retry, in milliseconds; undefined if a retry does not help. */
function pauseBeforeRetry(error: unknown, attempt: number): number | undefined {
  if (error instanceof ConnectionError) return 100 * 2 ** attempt;
  return error instanceof TemporaryError ? error.retryAfter * 1000 : undefined;
}
