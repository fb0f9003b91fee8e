import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type ClientOptions, ConnectionError, type EvaluateTextRequest, OracledClient, ResponseError, TemporaryError, TimeoutError } from "oracled-client";

// a server in place of the daemon, for faults that the daemon does not have
let folder: string;
let socketPath: string;
let requests: string[];
let connections = 0;
let respond: http.RequestListener;
const server = http.createServer((request, response) => {
  requests.push(`${request.method} ${request.url}`);
  respond(request, response);
});
server.on("connection", () => (connections += 1));

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "oracled-node-"));
  socketPath = join(folder, "fake.sock");
  server.listen(socketPath);
  await once(server, "listening");
});

after(async () => {
  server.closeAllConnections();
  server.close();
  await rm(folder, { recursive: true });
});

beforeEach(() => {
  requests = [];
});

function client(context: { after(fn: () => void): void }, options: ClientOptions = {}): OracledClient {
  const created = new OracledClient({ socketPath, ...options });
  context.after(() => created.close());
  return created;
}

function json(response: http.ServerResponse, status: number, body: unknown, headers: http.OutgoingHttpHeaders = {}): void {
  response.writeHead(status, { "content-type": "application/json", "x-request-id": "r1", ...headers });
  response.end(JSON.stringify(body));
}

function problem(response: http.ServerResponse, status: number, code: string, retryAfter?: string): void {
  const type = { "content-type": "application/problem+json" };
  const body = { type: `urn:oracled:problem:${code}`, title: "", status, detail: "a fault", code };
  json(response, status, body, { ...type, ...(retryAfter && { "retry-after": retryAfter }) });
}

const order = { tier: "quick", query: "Sell honey?" } as const;

test("broken_connection_is_retried_at_most_twice", async (context) => {
  respond = (request) => request.socket.destroy();
  await assert.rejects(client(context).submitVerdict("cs_1", order), ConnectionError);
  assert.equal(requests.length, 3);
  await assert.rejects(client(context, { retries: 0 }).readVerdict("cs_1"), ConnectionError);
  assert.equal(requests.length, 4);
});

test("connection_error_names_the_socket_and_the_remedy", async () => {
  const absent = new OracledClient({ socketPath: join(folder, "absent.sock"), retries: 0 });
  await assert.rejects(absent.readVerdict("cs_1"), /cannot connect to .*absent\.sock: ENOENT \(check that oracled runs/);
});

test("missing_daemon_is_tried_for_5_seconds_within_the_time_limit", async () => {
  const absent = new OracledClient({ socketPath: join(folder, "absent.sock") });
  for (const [timeoutMs, leastMs] of [[800, 400], [35_000, 4_900]] as const) {
    const began = performance.now();
    await assert.rejects(absent.listRules({ timeoutMs }), ConnectionError);
    const tookMs = performance.now() - began;
    assert.ok(tookMs >= leastMs && tookMs < leastMs + 1_000, `${tookMs} ms`);
  }
});

test("id_that_is_no_string_is_an_error_and_sends_nothing", async (context) => {
  const calls: Record<string, ((one: OracledClient, id: string) => Promise<unknown>)[]> = {
    sessionId: [
      (one, id) => one.submitVerdict(id, order),
      (one, id) => one.readVerdict(id),
      (one, id) => one.waitForVerdict(id),
      (one, id) => one.readOrder(id),
      (one, id) => one.cancelOrder(id),
      (one, id) => one.registerSession(id, order),
    ],
    recordId: [(one, id) => one.readRecord(id), (one, id) => one.readProvenance(id)],
    executionId: [(one, id) => one.readVerification(id)],
  };
  for (const [name, methods] of Object.entries(calls)) {
    for (const id of [undefined, null, Number.NaN, 17, "", ["cs_1"], new String("cs_1")]) {
      for (const method of methods) {
        await assert.rejects(method(client(context), id as string), (error) => {
          assert.ok(error instanceof TypeError);
          assert.match(error.message, new RegExp(`^\`${name}\` is .+ \\(a non-empty string is required\\)$`));
          return true;
        });
      }
    }
  }
  await assert.rejects(client(context).readVerdict(undefined as never), /`sessionId` is undefined/);
  assert.equal(requests.length, 0);
});

test("missing_request_is_an_error_and_sends_nothing", async (context) => {
  for (const request of [undefined, null, "Sell honey?"] as never[]) {
    for (const call of [client(context).submitVerdict("cs_1", request), client(context).registerSession("cs_1", request), client(context).verifyValues(request)]) {
      await assert.rejects(call, { name: "TypeError", message: /^`request` is .* \(an object is required\)$/ });
    }
  }
  assert.equal(requests.length, 0);
});

test("last_page_of_orders_is_not_the_name_of_a_session", async (context) => {
  respond = (_, response) => json(response, 200, { items: [] });
  await client(context).listOrders({ after: null as never, limit: 2 });
  assert.deepEqual(requests, ["GET /v1/orders?limit=2"]);
});

test("call_of_a_closed_client_is_an_error", async (context) => {
  const closed = client(context);
  closed.close();
  const error = { name: "OracledError", message: /the client is closed/ };
  await assert.rejects(closed.submitVerdict("cs_1", order), error);
  await assert.rejects(closed.waitForVerdict("cs_1"), error);
  await assert.rejects(drain(closed), error);
  const fake = new OracledClient({ transport: () => ({ body: {} }) });
  fake.close();
  await assert.rejects(fake.listRules(), error);
  assert.equal(requests.length, 0);
});

test("expired_submission_says_that_it_can_be_repeated", async (context) => {
  respond = () => {};
  const submitted = client(context).submitVerdict("cs_1", order, { timeoutMs: 100 });
  await assert.rejects(submitted, { name: "TimeoutError", message: /may be stored: repeat the same call, or call `waitForVerdict`$/ });
});

test("socket_is_that_of_a_daemon_of_this_user", async (context) => {
  if (existsSync("/run/oracled/oracled.sock")) return context.skip("a daemon of systemd precedes it");
  const before = { ...process.env };
  context.after(() => Object.assign(process.env, before));
  for (const name of ["ORACLED_SOCKET", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"]) delete process.env[name];
  process.env.HOME = folder;
  const usesSocket = (path: string) => assert.rejects(new OracledClient({ retries: 0 }).listRules(), new RegExp(`to ${path}`));
  await usesSocket("/run/oracled/oracled.sock: ENOENT \\(ORACLED_SOCKET is not set, so the default socket was used; check");
  const own = join(folder, ".local/state/oracled");
  await mkdir(own, { recursive: true });
  await writeFile(join(own, "oracled.sock"), "");
  await usesSocket(own);
  process.env.XDG_RUNTIME_DIR = join(folder, "run");
  await mkdir(join(folder, "run/oracled"), { recursive: true });
  await writeFile(join(folder, "run/oracled/oracled.sock"), "");
  await usesSocket(join(folder, "run/oracled"));
});

test("response_that_is_cut_off_is_retried", async (context) => {
  respond = (_, response) => {
    if (requests.length > 1) return json(response, 200, { rules: [] });
    response.writeHead(200, { "content-length": 100 });
    response.write("{");
    setTimeout(() => response.destroy(), 20);
  };
  assert.deepEqual((await client(context).listRules()).body, { rules: [] });
  assert.equal(requests.length, 2);
});

test("temporary_error_is_retried_after_its_wait", async (context) => {
  respond = (_, response) => (requests.length > 1 ? json(response, 200, { rules: [] }) : problem(response, 503, "overloaded", "1"));
  const began = performance.now();
  await client(context).listRules();
  assert.ok(performance.now() - began >= 990);
  assert.equal(requests.length, 2);
});

test("temporary_error_is_thrown_if_its_wait_exceeds_the_deadline", async (context) => {
  respond = (_, response) => problem(response, 429, "regen_rate_limited", "300");
  await assert.rejects(client(context).readVerdict("cs_1"), (error) => {
    assert.ok(error instanceof TemporaryError);
    assert.deepEqual([error.code, error.status, error.retryAfter, error.requestId], ["regen_rate_limited", 429, 300, "r1"]);
    return true;
  });
  assert.equal(requests.length, 1);
});

test("other_problems_are_not_retried", async (context) => {
  respond = (_, response) => problem(response, 503, "model_unavailable");
  await assert.rejects(client(context).submitVerdict("cs_1", order), { name: "ProblemError", retryAfter: undefined });
  assert.equal(requests.length, 1);
});

test("call_ends_at_its_time_limit_before_and_within_the_body", async (context) => {
  for (const start of [() => {}, (response: http.ServerResponse) => response.writeHead(200).write("{")]) {
    respond = (_, response) => start(response);
    const began = performance.now();
    await assert.rejects(client(context, { timeoutMs: 200 }).listRules(), TimeoutError);
    assert.ok(performance.now() - began < 1_500);
  }
  assert.equal(requests.length, 2);
});

test("timeout_in_a_retry_has_the_last_failure_and_the_time", async (context) => {
  respond = (request) => requests.length === 1 && request.socket.destroy();
  await assert.rejects(client(context, { timeoutMs: 400 }).listRules(), (error) => {
    assert.ok(error instanceof TimeoutError && error.cause instanceof ConnectionError);
    assert.match(error.message, /within 400 ms, after 2 attempts in [4-9]\d\d ms; the last failure: .*broke: socket hang up$/);
    return true;
  });
});

test("signal_ends_a_call_with_its_reason", async (context) => {
  respond = () => {};
  const reason = new Error("the customer left");
  const abort = new AbortController();
  setTimeout(() => abort.abort(reason), 50);
  await assert.rejects(client(context).listRules({ signal: abort.signal }), reason);
  await assert.rejects(client(context).listRules({ signal: abort.signal }), reason);
  assert.equal(requests.length, 1);
});

test("status_that_the_route_does_not_have_is_not_a_delivery", async (context) => {
  for (const status of [204, 206, 302, 500]) {
    const location = { location: "http://127.0.0.1:9/" };
    respond = (_, response) => json(response, status, { verdict: {} }, location);
    await assert.rejects(client(context).submitVerdict("cs_1", order), ResponseError, `${status}`);
  }
  for (const status of [302, 500]) {
    respond = (_, response) => json(response, status, { rules: [] });
    await assert.rejects(client(context).listRules(), ResponseError, `${status}`);
  }
  respond = (_, response) => response.writeHead(200).end("<html>");
  await assert.rejects(client(context).submitVerdict("cs_1", order), ResponseError);
});

test("connection_is_reused", async (context) => {
  respond = (_, response) => json(response, 200, {});
  const reusing = client(context);
  const before = connections;
  for (let call = 0; call < 5; call += 1) await reusing.listRules();
  assert.equal(connections - before, 1);
});

test("idle_connection_is_closed_and_a_slow_response_is_not_idle", async (context) => {
  respond = (_, response) => setTimeout(() => json(response, 200, { rules: [] }), 5_300);
  assert.equal((await client(context, { retries: 0 }).listRules()).status, 200);
  const open = (): Promise<number> => new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
  const before = await open();
  await sleep(5_300);
  assert.ok((await open()) < before);
});

test("number_without_all_of_its_digits_is_not_sent", async (context) => {
  for (const year of [Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
    const question = { workflow: "census", where: { area: "MDA", year }, axes: ["population"] };
    await assert.rejects(client(context).verifyValues(question), RangeError);
  }
  assert.equal(requests.length, 0);
});

test("empty_path_of_the_socket_never_becomes_a_network_connection", (context) => {
  assert.throws(() => client(context, { socketPath: "" }), TypeError);
  assert.throws(() => client(context, { timeoutMs: 0 }), RangeError);
  assert.throws(() => client(context, { timeoutMs: 2 ** 31 }), RangeError);
  assert.throws(() => client(context, { retries: -1 }), RangeError);
});

test("variable_names_the_socket", async (context) => {
  respond = (_, response) => json(response, 200, { rules: [] });
  const saved = process.env.ORACLED_SOCKET;
  process.env.ORACLED_SOCKET = socketPath;
  const found = new OracledClient();
  context.after(() => {
    found.close();
    if (saved === undefined) delete process.env.ORACLED_SOCKET;
    else process.env.ORACLED_SOCKET = saved;
  });
  assert.equal((await found.listRules()).status, 200);
});

const line = (number: number): string => `${JSON.stringify({ line: number, evaluation: { verdict: "PASS" } })}\n`;
const texts = [1, 2, 3].map((number) => ({ candidate_output: `${number}`, facts: [] }));
const drain = async (one: OracledClient, timeoutMs?: number): Promise<number> => {
  let received = 0;
  for await (const result of one.evaluateTexts(texts, { timeoutMs })) received = result.line;
  return received;
};

test("batch_with_a_missing_or_misplaced_result_is_an_error", async (context) => {
  for (const lines of [[1, 2], [1, 3, 2], [1, 2, 3, 4], []]) {
    respond = (request, response) => {
      request.resume().on("end", () => response.end(lines.map(line).join("")));
    };
    await assert.rejects(drain(client(context)), ResponseError, `${lines}`);
  }
  respond = (request, response) => {
    request.resume().on("end", () => response.end(line(1) + line(2) + line(3)));
  };
  assert.equal(await drain(client(context)), 3);
});

test("batch_ends_if_a_result_does_not_arrive_in_time", async (context) => {
  for (const start of [() => {}, (response: http.ServerResponse) => response.write(line(1))]) {
    respond = (request, response) => {
      request.resume();
      start(response);
    };
    await assert.rejects(drain(client(context), 300), TimeoutError);
  }
});

test("batch_that_the_daemon_refuses_is_its_problem", async (context) => {
  respond = (request, response) => {
    request.resume();
    problem(response, 503, "draining", "5");
  };
  await assert.rejects(drain(client(context)), { name: "TemporaryError", code: "draining", retryAfter: 5 });
  assert.equal(requests.length, 1);
  let closed = false;
  async function* endless(): AsyncGenerator<EvaluateTextRequest> {
    try {
      for (;;) {
        yield { candidate_output: "Water", facts: [] };
        await sleep(1);
      }
    } finally {
      closed = true;
    }
  }
  await assert.rejects(client(context).evaluateTexts(endless()).next(), { code: "draining" });
  for (const end = Date.now() + 10_000; !closed && Date.now() < end; ) await sleep(5);
  assert.ok(closed);
});
