// Starts the daemon under test in a temporary directory, with a scripted model on the loopback interface.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const PACKAGE = fileURLToPath(new URL("../../", import.meta.url));
export const ROOT = join(PACKAGE, "../..");

export const QUERY = "Sell honey?";
export const GOOD = '{"verdict":"GREEN","summary":"A sound and simple plan."}';

export class TestDaemon {
  readonly socketPath: string;
  #process: ChildProcess | undefined;

  private constructor(
    readonly folder: string,
  ) {
    this.socketPath = join(folder, "routes.sock");
  }

  /** Starts `oracled serve` with the configuration, or `oracled dev` without one, and waits until it is ready. */
  static async start(config?: string): Promise<TestDaemon> {
    const folder = await mkdtemp(join(tmpdir(), "oracled-node-"));
    const daemon = new TestDaemon(folder);
    await writeFile(join(folder, "oracled.toml"), config ?? "");
    await daemon.run(config === undefined ? "dev" : "serve");
    return daemon;
  }

  /** Starts the process, also again after `stop`. */
  async run(command: "serve" | "dev" = "serve"): Promise<void> {
    const paths = { config: "oracled.toml", "state-dir": "state", socket: "routes.sock", "control-socket": "control.sock" };
    const args = Object.entries(paths).flatMap(([name, path]) => [`--${name}`, join(this.folder, path)]);
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(ORACLED_|XDG_|LISTEN_)/.test(name)));
    const started = spawn(process.env.ORACLED_BIN || join(ROOT, "target/debug/oracled"), [command, ...args], {
      env: { ...env, TMPDIR: this.folder, GEMINI_API_KEY: command === "serve" ? "not-a-real-key" : undefined },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = started;
    let [output, failed] = ["", false];
    started.on("error", (error) => ([output, failed] = [`${error}`, true]));
    for (const stream of [started.stdout, started.stderr]) stream.on("data", (text: Buffer) => (output += text));
    const isReady = command === "dev" ? async () => output.includes("steps passed") : () => this.#isReady();
    for (const end = Date.now() + 60_000; !(await isReady()); await sleep(50)) {
      if (!failed && started.exitCode === null && Date.now() < end) continue;
      await this.stop();
      throw new Error(`the daemon is not ready:\n${output}`);
    }
  }

  /** Ends the process without a chance to finish its work, and waits for its end. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** Stops the process and removes its files. */
  async stop(): Promise<void> {
    await this.#end("SIGTERM");
    await rm(this.folder, { recursive: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const running = this.#process;
    if (!running?.pid || running.exitCode !== null || running.signalCode !== null) return;
    const ended = once(running, "exit");
    const patience = setTimeout(() => running.kill("SIGKILL"), 20_000);
    running.kill(signal);
    await ended;
    clearTimeout(patience);
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

/** A model with Gemini's protocol. `answer` returns the text of each answer. */
export class ScriptedModel {
  answer: () => Promise<string> | string = () => GOOD;
  readonly #server = http.createServer((request, response) => {
    request.resume();
    void (async () => {
      const text = await this.answer();
      const candidates = [{ content: { parts: [{ text }], role: "model" }, finishReason: "STOP", index: 0 }];
      const usageMetadata = { promptTokenCount: 300, candidatesTokenCount: 40, totalTokenCount: 340 };
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ candidates, usageMetadata, modelVersion: "gemini-2.5-flash", responseId: "r1" }));
    })();
  });

  async start(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

export function readPackageFile(name: string): Promise<string> {
  return readFile(join(PACKAGE, name), "utf8");
}
