import { once } from "node:events";
import type http from "node:http";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { problemError, ResponseError, TimeoutError } from "./errors.js";
import type { BatchAnswer, Envelope, ProblemDocument, QueryAnswer, RulesEvaluation } from "./generated.js";
import { type CallOptions, checkTimeLimit, encodeJson, parseAnswer, readText, type Transport } from "./transport.js";

/** The result of one text of a batch: an evaluation, or the problem that prevented it. */
export type BatchResult = Pick<BatchAnswer, "line" | "id"> &
  ({ evaluation: RulesEvaluation; problem?: never } | { problem: ProblemDocument; evaluation?: never });

/** The result of one query of a batch: an answer, or the problem that prevented it. */
export type QueryResult = { line: number } & ({ answer: QueryAnswer; problem?: never } | { problem: ProblemDocument; answer?: never });

/** The result of one question of a batch: an envelope, or the problem that prevented it. */
export type VerifyResult = { line: number } & ({ envelope: Envelope; problem?: never } | { problem: ProblemDocument; envelope?: never });

/** Lines with more characters are sent at once. The daemon evaluates at most 16 KiB together. */
const JOINED_CHARS = 16_384;

/**
 * Sends requests as lines while it reads the results, whose member `member` is absent if they have a problem. A slow consumer slows
 * down the source, and the other way round.
 */
export async function* runBatch<T, R extends { line: number; problem?: ProblemDocument }>(
  transport: Transport,
  [path, member]: [path: string, member: keyof R],
  requests: Iterable<T> | AsyncIterable<T>,
  options: CallOptions,
): AsyncGenerator<R, void, undefined> {
  const limitMs = checkTimeLimit("timeoutMs", options.timeoutMs ?? transport.timeoutMs);
  const headers = { "content-type": "application/x-ndjson" };
  const request = transport.open({ method: "POST", path, headers }, options);
  let [sent, received, waiting] = [0, 0, false];
  let fault: unknown;
  const timer = setTimeout(() => {
    // a slow source or a slow consumer is not a fault of the daemon
    if (!waiting || received === sent) return;
    fault = new TimeoutError(`no result of line ${received + 1} within ${limitMs} ms`);
    request.destroy();
  }, limitMs);
  async function* encodeLines(): AsyncGenerator<string> {
    let sending = false;
    try {
      for await (const one of requests) {
        const line = `${encodeJson(one)}\n`;
        sent += 1;
        timer.refresh();
        sending = true;
        yield line;
        sending = false;
      }
    } catch (error) {
      // an error of the connection is thrown at the `yield`
      if (!sending) fault = error;
      throw error;
    }
  }
  try {
    const responded = once(request, "response") as Promise<[http.IncomingMessage]>;
    // a failed upload also ends the response, which is where its error is reported
    pipeline(Readable.from(encodeLines()), joinLines(), request).catch(() => {});
    waiting = true;
    const [response] = await responded;
    if (response.statusCode !== 200) {
      parseAnswer(response, await readText(response));
      throw new ResponseError("the batch has an unexpected status", response.statusCode ?? 0, requestIdOf(response));
    }
    for await (const line of readLines(response)) {
      waiting = false;
      const result = JSON.parse(line) as R;
      // the daemon ends a batch that it cannot continue with a problem, which is about no line if all have a result
      if (result.problem && received === sent) throw problemError(result.problem, requestIdOf(response), undefined);
      received += 1;
      if (result.line !== received || (!result[member] && !result.problem)) {
        throw new ResponseError(`line ${received} of the response is not the result of line ${received}`, 200, requestIdOf(response));
      }
      yield result;
      waiting = true;
      timer.refresh();
    }
    if (fault !== undefined) throw fault;
    if (received !== sent) {
      throw new ResponseError(`the batch ended after ${received} of ${sent} lines; submit the others again`, 200, requestIdOf(response));
    }
  } catch (error) {
    throw fault ?? transport.failure(error, options.signal);
  } finally {
    clearTimeout(timer);
    request.destroy();
  }
}

/** Joins the lines that the source has at the same time. The daemon evaluates and logs the lines of one write together. */
function joinLines(): Transform {
  let lines = "";
  const joined = new Transform({
    decodeStrings: false,
    transform(line: string, _encoding, done) {
      if (lines === "") setImmediate(flush);
      lines += line;
      if (lines.length >= JOINED_CHARS) flush();
      done();
    },
    flush(done) {
      flush();
      done();
    },
  });
  function flush(): void {
    if (lines !== "") joined.push(lines);
    lines = "";
  }
  return joined;
}

async function* readLines(response: http.IncomingMessage): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of response.setEncoding("utf8")) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") yield rest;
}

function requestIdOf(response: http.IncomingMessage): string {
  return String(response.headers["x-request-id"] ?? "");
}
