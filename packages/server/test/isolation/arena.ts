import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ExecRequest } from "@sandpiper/sandbox/driver";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { type RunOptions, runToEnd } from "@sandpiper/sandbox/shell/run";
import { afterAll, beforeAll, expect } from "vitest";
import type { Config } from "../../src/config/config.ts";
import { type Json, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { Health } from "./health.ts";

/** Maximum 99th percentile of `/health` during an attack, ms: only a hanging server exceeds it. */
const maxHealthMs = 15_000;

/** A sandbox and what an attacker in it, or a user of the routes, can do. */
export interface Place {
  id: string;
  /** Runs a shell command, or words, with a time limit of 150 s. */
  run(
    command: string | string[],
    options?: RunOptions & Pick<ExecRequest, "tty">,
  ): Promise<{ code: number; out: string; err: string }>;
  /** Runs a script of `attacks/`; returns the JSON that it writes. */
  attack(script: string, ...args: string[]): Promise<any>;
  /** A request to the routes of this sandbox, such as `/files?path=…`. */
  route(method: string, path: string, init?: RequestInit): Promise<Response>;
  /** The files route with a path. */
  file(method: string, path: string, body?: string): Promise<Response>;
  handle(): Promise<Sandbox>;
}

/** A platform with sandboxes to attack it from; see `useArena`. */
export interface Arena {
  readonly server: TestPlatform;
  /** Starts a sandbox and waits until it runs. `query` as in `POST /api/v1/sandboxes`. */
  place(query?: string, body?: Json): Promise<Place>;
  /** A scratch folder of the host that goes with the arena. */
  readonly folder: string;
}

export interface ArenaOptions {
  specs: Json[];
  config?: Partial<Config>;
}

/** Small sandboxes, by the host's files; in one of them the user is root. */
export const specs: Json[] = ["agent", "root"].map((user) => ({
  id: user,
  user,
  limits: { memory: "256M", pids: 128, cpus: 1, disk: "512M" },
}));

/**
 * A platform for the tests of a file. A separate process polls its health; slow answers fail the
 * file.
 */
export function useArena(
  options: (folder: string) => Promise<ArenaOptions> | ArenaOptions = () => ({ specs }),
): Arena {
  let folder: string;
  let server: TestPlatform;
  let health: Health;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "sandpiper-arena-"));
    const { specs, config } = await options(folder);
    const specsFile = join(folder, "specs.json");
    await writeFile(specsFile, JSON.stringify({ specs }));
    server = await startTestPlatform({ specsFile, ...config });
    health = new Health(server.url);
    await health.look();
  });
  afterAll(async () => {
    const { count, p99 } = await health.look();
    health.end();
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
    expect(p99, `p99 of ${count} answers of /health, ms`).toBeLessThan(maxHealthMs);
  });
  return {
    get server() {
      return server;
    },
    get folder() {
      return folder;
    },
    async place(query = "", body) {
      const made = await server.call("POST", `/api/v1/sandboxes${query}`, body);
      expect(made).toMatchObject({ status: 200 });
      await server.platform.sandboxes.running(made.body.id);
      return placeOf(server, made.body.id);
    },
  };
}

function placeOf(server: TestPlatform, id: string): Place {
  const handle = () => server.platform.sandboxes.running(id);
  const route: Place["route"] = (method, path, init = {}) =>
    fetch(`${server.url}/api/v1/sandboxes/${id}${path}`, {
      method,
      signal: AbortSignal.timeout(150_000),
      ...init,
      headers: { "x-session-api-key": server.key, ...init.headers },
    });
  const run: Place["run"] = async (command, { tty, ...options } = {}) => {
    const argv = typeof command === "string" ? ["sh", "-c", command] : command;
    const result = await runToEnd(
      await handle(),
      { argv, ...(tty && { tty }) },
      { timeoutMs: 150_000, ...options },
    );
    return { code: result.code, out: result.stdout.toString(), err: result.stderr.toString() };
  };
  return {
    id,
    handle,
    run,
    route,
    file: (method, path, body) =>
      route(
        method,
        `/files?path=${encodeURIComponent(path)}`,
        body === undefined ? {} : { body, headers: { "content-type": "text/plain" } },
      ),
    async attack(script, ...args) {
      const text = readFileSync(new URL(`attacks/${script}`, import.meta.url), "utf8");
      const { code, out, err } = await run(["python3", "-c", text, ...args]);
      expect({ code, err }).toEqual({ code: 0, err: "" });
      return JSON.parse(out);
    },
  };
}
