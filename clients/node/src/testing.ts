/** Helpers for tests of an application: answers without a daemon, and a daemon in test mode. */
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { access, constants, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import http from "node:http";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { OracledClient, type Verdict } from "./client.js";
import type { CrosscheckDecision, OrderReport, ProblemCode, ProductTier, VerdictResponse } from "./generated.js";
import type { FakeResponse } from "./transport.js";

export type { FakeRequest, FakeResponse } from "./transport.js";

const NOW = "2026-01-01T00:00:00Z";
const GOOD: Verdict = { verdict: "GREEN", summary: "A made-up verdict for a unit test." };
const THRESHOLD = 0.9740425724725061;

/**
 * The answer with a verdict, for `transport` of a client. `members` replaces members of the answer. As with the daemon, the status of
 * a submission is 201, or 200 with the member `replayed: true`; that of a read is 200.
 */
export function fakeVerdict(sessionId: string, verdict: Verdict = GOOD, members: Partial<VerdictResponse> = {}): FakeResponse {
  const decision: VerdictResponse["decision"] = {
    approved: true,
    coherence_score: 1,
    crosscheck_reason: "pass",
    flags: [],
    threshold: THRESHOLD,
    verdict_label: verdict.verdict,
  };
  const body = { session_id: sessionId, tier: "quick", query: "A query of a unit test", verdict, decision, cached_at: NOW, regen: false };
  return { status: members.replayed ? 200 : 201, body: { ...body, ...members } };
}

/**
 * The answer with an order that waits. With the state `held`, an operator must decide. `retryAfter` is the time before the next read
 * of an order that is queued or generating, in seconds; that of the daemon is 5 or more.
 */
export function fakeOrder(
  sessionId: string,
  state: OrderReport["state"] = "queued",
  members: Partial<OrderReport> = {},
  retryAfter = 0,
): FakeResponse {
  const tier: ProductTier = "quick";
  const body = {
    session_id: sessionId,
    state,
    tier,
    placed_at: NOW,
    changed_at: NOW,
    tried_since: NOW,
    attempts: 0,
    failures_in_a_row: 0,
    generations: 0,
    last_attempts: [],
    ...(state === "held" && { stop_cause: "policy" }),
  };
  const isWaiting = state === "queued" || state === "generating";
  const headers = { location: `/v1/orders/${sessionId}`, ...(isWaiting && { "retry-after": `${retryAfter}` }) };
  return { status: 202, body: { ...body, ...members }, headers };
}

/** A problem, such as `fakeProblem(422, "crosscheck_rejected")`. With `retryAfter` it is temporary. */
export function fakeProblem(status: number, code: ProblemCode, detail = "a fault of a unit test", retryAfter?: number): FakeResponse {
  const decision: CrosscheckDecision = {
    approved: false,
    coherence_score: 0,
    crosscheck_reason: "degenerate_manifold",
    flags: [],
    threshold: THRESHOLD,
  };
  const problem = { type: `urn:oracled:problem:${code}`, title: code, status, detail, code };
  const body = { ...problem, ...(code === "crosscheck_rejected" && { decision }) };
  const type = { "content-type": "application/problem+json" };
  return { status, body, headers: { ...type, ...(retryAfter !== undefined && { "retry-after": `${retryAfter}` }) } };
}

/** Settings of a daemon for tests. All are optional. */
export interface TestDaemonOptions {
  /** The program. Default: the variable `ORACLED_BIN`, or `oracled` in the `PATH`. */
  program?: string;
  /** The configuration, in TOML. Without a model, it gets canned answers without a limit of calls. */
  config?: string;
  /** The longest time of the start, in milliseconds. Default: 30,000. */
  startMs?: number;
}

const CANNED = '\n[model]\nprovider = "canned"\ncalls_per_minute = 1000000\n';
// the header of a table, or a key before the first table
const HAS_MODEL = /(?:^|\n)[ \t]*\[\[?[ \t]*models?[ \t]*[.\]]|^(?:(?![ \t]*\[)[^\n]*\n)*[ \t]*models?[ \t]*[.=]/;

// `read` returns when this process ends, also by SIGKILL: the input of the shell is a pipe from it. The output ends with the daemon
const GUARD = `folder=$1; shift
"$@" </dev/null & daemon=$!
exec >/dev/null 2>&1
read -r _
kill -KILL $daemon; wait
rm -rf "$folder"`;

/** A mail that the daemon would have sent. */
export interface TestMail {
  to: string;
  /** It begins with `[test mode]`. */
  subject: string;
  text: string;
}

/** A daemon in test mode. All of its files are in a temporary folder. Both are removed when the process of the tests ends. */
export class TestDaemon {
  /** For `OracledClient`, and for the variable `ORACLED_SOCKET`. */
  readonly socketPath: string;
  /** For the variable `ORACLED_CONTROL_SOCKET` of `oraclectl`. */
  readonly controlSocketPath: string;
  readonly client: OracledClient;
  readonly #program: string;
  #process: ChildProcessWithoutNullStreams | undefined;

  private constructor(
    /** The temporary folder. */
    readonly folder: string,
    program: string,
  ) {
    this.socketPath = join(folder, "o.sock");
    this.controlSocketPath = join(folder, "c.sock");
    this.client = new OracledClient({ socketPath: this.socketPath });
    this.#program = program;
  }

  /** Starts `oracled serve --test-mode`, and waits until it is ready. */
  static async start({ program, config = "", startMs = 30_000 }: TestDaemonOptions = {}): Promise<TestDaemon> {
    // a short path: that of a socket has at most 107 bytes
    const folder = await mkdtemp(join(tmpdir(), "oracled-"));
    const daemon = new TestDaemon(folder, program ?? (process.env.ORACLED_BIN || "oracled"));
    writeFileSync(join(folder, "oracled.toml"), HAS_MODEL.test(config) ? config : config + CANNED);
    try {
      await daemon.#run(startMs);
    } catch (error) {
      await daemon.stop();
      throw error;
    }
    return daemon;
  }

  /** The mails so far. */
  async mails(): Promise<TestMail[]> {
    const folder = join(this.folder, "state", "test-mail");
    const names = await readdir(folder).catch(() => []);
    const files = names.filter((name) => name.endsWith(".txt") && !name.startsWith("."));
    return Promise.all(files.sort().map(async (name) => parseMail(await readFile(join(folder, name), "utf8"))));
  }

  /** Runs `oraclectl` with the sockets of this daemon, and returns its output. */
  oraclectl(...args: string[]): string {
    const env = { ...process.env, ORACLED_SOCKET: this.socketPath, ORACLED_CONTROL_SOCKET: this.controlSocketPath };
    // the program is `oraclectl` when it is started under that name
    const { status, stdout, stderr, error } = spawnSync(this.#program, args, { argv0: "oraclectl", env, encoding: "utf8" });
    if (error || status !== 0) throw new Error(`oraclectl ${args.join(" ")} failed: ${error?.message ?? stderr}`);
    return stdout;
  }

  /** Stops the process and removes its files. */
  async stop(): Promise<void> {
    this.client.close();
    const running = this.#process;
    if (running?.pid && running.exitCode === null && running.signalCode === null) {
      running.ref();
      const ended = once(running, "exit");
      running.stdin.end();
      await ended;
    }
    await rm(this.folder, { recursive: true, force: true });
  }

  async #run(startMs: number): Promise<void> {
    const paths = { config: "oracled.toml", "state-dir": "state", socket: "o.sock", "control-socket": "c.sock" };
    const flags = Object.entries(paths).flatMap(([name, path]) => [`--${name}`, join(this.folder, path)]);
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(ORACLED_|XDG_|LISTEN_)/.test(name)));
    const program = await findProgram(this.#program);
    const args = ["-c", GUARD, "sh", this.folder, program, "serve", "--test-mode", ...flags];
    // detached: a signal to the group of this process does not end the shell
    const started = spawn("sh", args, { env, stdio: "pipe", detached: true });
    this.#process = started;
    let [output, ended] = ["", false];
    started.on("error", (error) => ([output, ended] = [`${error}`, true]));
    for (const stream of [started.stdout, started.stderr]) {
      stream.on("data", (text: Buffer) => (output += text));
      stream.on("end", () => (ended = true));
    }
    // a daemon that is not stopped must not keep this process alive; it ends with it
    started.unref();
    for (const stream of started.stdio) (stream as Socket | null)?.unref();
    for (const end = performance.now() + startMs; !(await this.#isReady()); await sleep(20)) {
      const printed = output || "it printed nothing (check that the program is oracled)";
      if (ended) throw new Error(`the daemon ${program} did not start: ${printed}`);
      if (performance.now() >= end) throw new Error(`the daemon ${program} was not ready within ${startMs} ms: ${printed}`);
    }
  }

  #isReady(): Promise<boolean> {
    return new Promise((resolve) => {
      const request = http.get({ socketPath: this.socketPath, path: "/readyz", agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      });
      request.on("error", () => resolve(false));
    });
  }
}

/** The path of a program, also of one in the `PATH`. */
async function findProgram(program: string): Promise<string> {
  const folders = program.includes("/") ? [""] : (process.env.PATH ?? "").split(":");
  for (const path of folders.map((folder) => join(folder, program))) {
    const isProgram = access(path, constants.X_OK).then(async () => (await stat(path)).isFile(), () => false);
    if (await isProgram) return path;
  }
  throw new Error(`${program} is not a program; install oracled, or set ORACLED_BIN`);
}

function parseMail(file: string): TestMail {
  const end = file.indexOf("\n\n");
  const head = file.slice(0, end).split("\n");
  const member = (name: string) => head.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
  return { to: member("To"), subject: member("Subject"), text: file.slice(end + 2) };
}
