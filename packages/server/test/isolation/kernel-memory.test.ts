import { once } from "node:events";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type Json, until } from "../support/platform.ts";
import { useArena } from "./arena.ts";

/** Memory of the kernel that the limit of a sandbox's memory does not count. */

const limitMegabytes = 256;
const arena = useArena(() => ({
  specs: [{ id: "agent", limits: { memory: `${limitMegabytes}M`, pids: 512, cpus: 1, disk: "512M" } }],
}));

/** Starts an attack that holds so much memory; returns its sandbox's id and what it reports. */
async function attack(kind: string, megabytes: number): Promise<{ id: string; held: Promise<number> }> {
  const place = await arena.place();
  const script = readFileSync(new URL("attacks/kernel_memory.py", import.meta.url), "utf8");
  const process = await (await place.handle()).exec({
    argv: ["python3", "-c", script, kind, String(megabytes)],
  });
  process.stderr.resume();
  const said = once(process.stdout, "data").then(([line]) => JSON.parse(String(line)).megabytes as number);
  // The attack may be killed before it reports.
  const held = Promise.race([said, process.exit.then(() => 0)]);
  return { id: place.id, held };
}

const sandboxOf = async (id: string): Promise<Json> =>
  (await arena.server.call("GET", `/api/v1/sandboxes?id=${id}`)).body[0];

test("buffers of sockets are limited", async () => {
  const { held } = await attack("tcp", 3 * limitMegabytes);
  expect(await Promise.race([held, new Promise((resolve) => setTimeout(resolve, 8_000, 0))])).toBeLessThan(
    2 * limitMegabytes,
  );
});

test("a sandbox that holds much memory of the kernel is stopped, and can be resumed", async () => {
  const { id } = await attack("netlink", 700);
  const stopped = await until(async () => {
    const sandbox = await sandboxOf(id);
    return sandbox.status === "PAUSED" ? sandbox : undefined;
  });
  expect(stopped.status_detail).toMatch(/more than \d+\.0 MB of the kernel's memory outside/);
  const call = arena.server.call;
  expect((await call("POST", `/api/v1/sandboxes/${id}/resume`)).status).toBe(200);
  expect(await sandboxOf(id)).toMatchObject({ status: "RUNNING", status_detail: null });
});
