import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { figures, inTurn, type Row } from "./measure.ts";
import { residentMemory, startProgram, stopProgram } from "./process.ts";
import { serverMain } from "./server-process.ts";

const launcher = fileURLToPath(new URL("../bin/sandpiper", import.meta.url));
const rounds = 20;

/** How long a server is idle before its memory is measured, ms. */
const settleMs = 2_000;

const helpTargetMs = 150;
const serveTargetMs = 800;
const memoryTargetMb = 150;

const bareServer = `const server = require("node:http").createServer().listen(0, "127.0.0.1", () =>
  console.log("http://127.0.0.1:" + server.address().port))`;

/** Starts: of short commands, and of a server on a data folder that exists, with its memory. */
export async function benchStart(): Promise<Row[]> {
  const dataDir = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  const env = {
    SANDPIPER_DATA: dataDir,
    SANDPIPER_PORT: "0",
    SANDPIPER_LOG_LEVEL: "error",
  };
  try {
    return [...(await commands(env)), ...(await servers(env))];
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}

async function commands(env: Record<string, string>): Promise<Row[]> {
  const server = await startProgram([serverMain, "serve"], env, /http:\/\/[\w.:]+\d/);
  try {
    const node = () => run(process.execPath, ["-e", "0"], env);
    const [bare, help, list] = await inTurn(rounds, [
      node,
      () => run(launcher, ["--help"], env),
      () => run(launcher, ["ls"], env),
    ]);
    const floor = { name: "node -e 0", figures: figures(bare!) };
    return Object.entries({ "--help": help!, "ls, beside a running server": list! }).map(
      ([name, samples]) => ({
        name: `sandpiper ${name}`,
        unit: "ms",
        figures: figures(samples),
        floor,
        target: `p50 <= ${helpTargetMs} ms`,
        met: figures(samples).p50 <= helpTargetMs,
      }),
    );
  } finally {
    await stopProgram(server.child);
  }
}

async function servers(env: Record<string, string>): Promise<Row[]> {
  const memory: { bare: number[]; server: number[] } = { bare: [], server: [] };
  const start = (args: string[], kept: number[]) => async (): Promise<number> => {
    const begin = performance.now();
    const { child } = await startProgram(args, env, /http:\/\/[\w.:]+\d/);
    const took = performance.now() - begin;
    await delay(settleMs);
    kept.push(residentMemory(child.pid!) / 2 ** 20);
    await stopProgram(child);
    return took;
  };
  const [bare, server] = await inTurn(
    rounds,
    [start(["-e", bareServer], memory.bare), start([serverMain, "serve"], memory.server)],
    { warmUp: 1 },
  );
  const [starts, memories] = [figures(server!), figures(memory.server)];
  return [
    {
      name: "serve: start until it listens",
      unit: "ms",
      figures: starts,
      floor: { name: "bare http server", figures: figures(bare!) },
      target: `p50 <= ${serveTargetMs} ms`,
      met: starts.p50 <= serveTargetMs,
    },
    {
      name: "memory of an idle server",
      unit: "MB",
      figures: memories,
      floor: { name: "bare http server", figures: figures(memory.bare) },
      target: `p95 < ${memoryTargetMb} MB`,
      met: memories.p95 < memoryTargetMb,
    },
  ];
}

function run(program: string, args: string[], env: Record<string, string>): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      env: { ...process.env, ...env },
      stdio: ["ignore", "ignore", "inherit"],
    });
    child.once("close", (code) =>
      code === 0 ? resolve() : reject(new Error(`${[program, ...args].join(" ")} ended with ${code}`)),
    );
  });
}
