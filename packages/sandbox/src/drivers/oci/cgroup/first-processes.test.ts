import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { FirstProcesses } from "./first-processes.ts";

const top = mkdtempSync("/dev/shm/sandpiper-first-");
afterAll(() => rmSync(top, { recursive: true }));

/** A process in which a file of the sandbox's box is mounted, as in a sandbox. */
async function startInBox(id: string) {
  mkdirSync(join(top, "boxes", id), { recursive: true });
  writeFileSync(join(top, "boxes", id, "hostname"), id);
  const script = `mount --bind ${top}/boxes/${id}/hostname /etc/hostname && echo ready && exec sleep 300`;
  const child = spawn("unshare", ["--mount", "sh", "-c", script], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  const end = async () => {
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  return { pid: child.pid!, end };
}

test("knows a sandbox's first process and rejects another process with its id", async () => {
  const processes = new FirstProcesses(top, join(top, "boxes"));
  const [one, two] = [await startInBox("one"), await startInBox("two")];
  writeFileSync(processes.pidFile("one"), `${one.pid}\n`);
  expect(processes.get("one")).toBe(one.pid);
  await one.end();
  expect(processes.get("one")).toBeUndefined();
  for (const other of [process.pid, two.pid, 2 ** 30]) {
    writeFileSync(processes.pidFile("one"), String(other));
    expect(processes.get("one"), String(other)).toBeUndefined();
  }
  writeFileSync(processes.pidFile("two"), "");
  expect(processes.get("two")).toBeUndefined();
  await two.end();
});
