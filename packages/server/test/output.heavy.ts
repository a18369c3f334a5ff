import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { expect, test } from "vitest";
import { type Json, removeSandboxes, startConversation, until } from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";
import { startServerProcess } from "./support/server-process.ts";

/** Bytes that one command prints. */
const size = 3 * 2 ** 30;
const prints = (bytes: number) => `yes 0123456789abcdef | head -c ${bytes}`;
/** The minimum rate: an eighth on a terminal that a program reads; terminals are slow. */
const part = 8;
const onTerminal = `python3 -c '
import os, pty
pid, fd = pty.fork()
if pid == 0: os.execvp("sh", ["sh", "-c", "${prints(size / part)}"])
try:
  while os.read(fd, 65536): pass
except OSError: pass'`;

/** Maximum server memory for the output (bytes) and maximum wait of other requests (ms). */
const mostMemory = 200 * 2 ** 20;
const longestHealth = 500;

/** Memory of a process, bytes. */
const resident = (pid: number) =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) * 1024;

test("an agent's command that prints three gigabytes costs the server bounded memory and does not affect others", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-output-"));
  const models = await startModelServer(({ index }) => {
    const commands = ["echo ready", `${prints(size)} | cat >/dev/null`, onTerminal, prints(size)];
    return commands[index]
      ? reply.toolCalls([terminal(commands[index], { timeout: 1_100 })])
      : finish("Done.");
  });
  const server = await startServerProcess(dataDir);
  try {
    await server.call("POST", "/api/settings", {
      llm_model: "openai/scripted",
      llm_api_key: "sk-x",
      llm_base_url: models.url,
    });
    const { id } = await startConversation(server.call, "Print.");
    const seen = async (): Promise<Json[]> => {
      const { body } = await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`);
      return body.items;
    };
    await until(
      async () =>
        (await seen()).filter(({ action }) => action?.kind === "TerminalAction").length === 4 || undefined,
      20,
    );
    const before = resident(server.child.pid!);
    let most = 0;
    const waits: number[] = [];
    const stored = await until(async () => {
      const began = performance.now();
      expect((await fetch(`${server.url}/health`)).status).toBe(200);
      waits.push(performance.now() - began);
      most = Math.max(most, resident(server.child.pid!));
      const events = await seen();
      return events.some(({ observation }) => observation?.kind === "FinishObservation") ? events : undefined;
    }, 50);
    const calls = stored.filter(({ action }) => action?.kind === "TerminalAction");
    const results = stored.filter(({ observation }) => observation?.kind === "TerminalObservation");
    const seconds = (index: number) =>
      (Date.parse(results[index]!.timestamp) - Date.parse(calls[index]!.timestamp)) / 1000;
    const slowest = waits.sort((a, b) => a - b)[Math.floor(waits.length * 0.99)]!;
    const [piped, floor, own] = [seconds(1), seconds(2) * part, seconds(3)] as const;
    process.stdout.write(
      `3 GiB in ${own.toFixed(0)} s; read in the sandbox: ${floor.toFixed(0)} s from a terminal, ${piped.toFixed(1)} s from a pipe. ` +
        `Memory: +${((most - before) / 2 ** 20).toFixed(0)} MiB; /health meanwhile, p99: ${slowest.toFixed(0)} ms\n`,
    );
    expect(own).toBeLessThan(5 * floor);
    const { observation } = results[3]!;
    expect(observation).toMatchObject({ exit_code: 0, is_error: false });
    expect(observation.content[0].text).toMatch(
      /\[\d+ of \d+ characters are left out here\. The beginning of the output is in \S+;/,
    );
    expect(observation.content[0].text.length).toBeLessThanOrEqual(30_000);
    expect(most - before).toBeLessThan(mostMemory);
    expect(slowest).toBeLessThan(longestHealth);
  } finally {
    await removeSandboxes(server.call).catch(() => {});
    await server.end("SIGTERM");
    await models.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}, 1_200_000);
