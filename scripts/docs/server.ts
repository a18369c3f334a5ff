import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export const url = "http://127.0.0.1:3000";
export const key = "the-key-that-was-printed";

/** A server of a page. */
export class Server {
  readonly #program: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #log: string;
  #child: ChildProcess | undefined;

  /** Prints to the file `log`. */
  constructor(program: string, env: NodeJS.ProcessEnv, log: string) {
    this.#program = program;
    this.#env = { ...env, SANDPIPER_API_KEY: key };
    this.#log = log;
  }

  /** Starts the server and makes `demo/repair` the model. Throws when it does not answer. */
  async start(timeoutMs: number): Promise<void> {
    const output = openSync(this.#log, "a");
    this.#child = spawn(this.#program, ["serve"], {
      cwd: join(this.#env.HOME!, "sandpiper"),
      env: this.#env,
      stdio: ["ignore", output, output],
    });
    closeSync(output);
    const limit = Date.now() + timeoutMs;
    while (!(await answers())) {
      const end = this.ended();
      if (end) throw new Error(end);
      if (Date.now() > limit) throw new Error(`the server did not answer in ${timeoutMs / 1000} s.`);
      await sleep(50);
    }
    await request("POST", "/api/settings", { llm_model: "demo/repair" });
  }

  /** How the server ended, with the end of its log; undefined while it runs. */
  ended(): string | undefined {
    const { exitCode, signalCode } = this.#child!;
    if (exitCode === null && signalCode === null) return undefined;
    return `the server ended (${signalCode ?? `exit code ${exitCode}`}):\n${this.log()}`;
  }

  /** The end of what the server printed. */
  log(): string {
    return readFileSync(this.#log, "utf8").trimEnd().split("\n").slice(-20).join("\n");
  }

  /** Deletes all sandboxes, because frozen ones cannot be killed, and ends the server. */
  async stop(timeoutMs: number): Promise<void> {
    if (this.ended()) await this.start(timeoutMs);
    const { items } = (await request("GET", "/api/v1/sandboxes/search?limit=100")) as {
      items: { id: string }[];
    };
    for (const { id } of items) await request("DELETE", `/api/v1/sandboxes/${id}`);
    const child = this.#child!;
    const exit = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await Promise.race([exit, sleep(timeoutMs, undefined, { ref: false })]);
  }
}

async function answers(): Promise<boolean> {
  return fetch(`${url}/health`).then(
    ({ ok }) => ok,
    () => false,
  );
}

async function request(method: string, path: string, body?: object): Promise<unknown> {
  const response = await fetch(url + path, {
    method,
    headers: { "x-session-api-key": key, "content-type": "application/json" },
    body: body && JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text === "" ? undefined : JSON.parse(text);
}
