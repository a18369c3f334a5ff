import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { SandboxLimits } from "../../../driver.ts";
import { NamespaceGroups } from "./namespace-processes.ts";

const dir = mkdtempSync(join(tmpdir(), "sandpiper-groups-"));
const groups = new NamespaceGroups(dir);
const folder = dirname(dirname(groups.runArgs("any")[1]!));
const started: ChildProcess[] = [];
afterAll(async () => {
  for (const child of started) {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
  rmSync(folder, { recursive: true });
  rmSync(dir, { recursive: true });
});

/** A process id namespace with so many children of its first process, as in a sandbox. */
async function startNamespace(id: string, children: number) {
  const box = join(folder, "boxes", id);
  mkdirSync(box, { recursive: true });
  writeFileSync(join(box, "hostname"), id);
  const script = `mount --bind ${box}/hostname /etc/hostname
    i=0; while [ $i -lt ${children} ]; do sleep 300 & i=$((i + 1)); done; echo ready; wait`;
  const argv = ["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script];
  const child = spawn("unshare", argv, { stdio: ["ignore", "pipe", "inherit"] });
  started.push(child);
  await once(child.stdout, "data");
  const first = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "latin1").trim();
  writeFileSync(groups.runArgs(id)[1]!, first);
  return { group: groups.get(id), first: Number(first) };
}

function processLimit(pid: number): number {
  return Number(/^Max processes +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, "latin1"))?.[1]);
}

const limits = (pids: number) => ({ memoryBytes: 2 ** 28, pids }) as SandboxLimits;

test("processes that were started before their parent was limited are limited, however many", async () => {
  const { group, first } = await startNamespace("many", 300);
  group.admit(first, limits(1_000));
  await expect
    .poll(() => group.members().filter((pid) => processLimit(pid) !== 1_000).length, { timeout: 10_000 })
    .toBe(0);
  expect(group.members()).toHaveLength(301);
});

test("a sandbox ends when its processes have outrun the limit", async () => {
  const { group, first } = await startNamespace("bomb", 100);
  expect(group.state()).toBe("running");
  group.admit(first, limits(20));
  await expect.poll(() => group.state(), { timeout: 10_000 }).toBe("gone");
});
