import { stub } from "@sandpiper/core/test/support/stub";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { testSpec } from "@sandpiper/sandbox/test/support/oci";
import { contentText } from "@sandpiper/wire";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ServiceBench } from "../../../test/support/sandbox-service.ts";
import { getHeldFolder } from "./held-shells.ts";
import { Workspaces } from "./workspaces.ts";

/** Room for three resting shells. */
const spec = { ...testSpec, limits: { ...testSpec.limits, pids: 96 } };

let bench: ServiceBench;
let sandboxId: string;
let workspaces: Workspaces;
let awake: Set<string>;

beforeEach(async () => {
  bench = await new ServiceBench().open();
  sandboxId = (await (await bench.serve({ specs: [spec] })).create("me")).id;
  awake = new Set();
  workspaces = openWorkspaces();
});
afterEach(async () => {
  workspaces.close();
  await bench.end();
});

function openWorkspaces(): Workspaces {
  return new Workspaces({
    sandboxes: bench.service,
    settings: stub({ agent: async () => stub({ gitUserName: "Ann", gitUserEmail: "ann@example.com" }) }),
    isAwake: ({ id }) => awake.has(id),
    epoch: () => 1,
    find: async (id) => row(id),
    onUnload: () => {},
  });
}

const toId = (number: number) => `00000000-0000-4000-8000-00000000000${number}`;
const row = (id: string) =>
  stub<Parameters<Workspaces["getOrCreate"]>[0]>({
    ...{ id, userId: "me", sandboxId },
    config: stub({ workingDir: "/workspace/project" }),
  });

/** Runs a command of a conversation, whose run then ends. */
async function run(number: number, command: string): Promise<string> {
  const id = toId(number);
  awake.add(id);
  const terminal = await workspaces.getOrCreate(row(id)).terminal();
  const action = { kind: "TerminalAction", command, is_input: false, reset: false, timeout: 20 } as const;
  const { content } = await terminal.run(action, AbortSignal.timeout(50_000));
  awake.delete(id);
  workspaces.rest(id);
  return contentText(content);
}

async function inSandbox(script: string, ...words: string[]): Promise<string> {
  const sandbox = await bench.service.running(sandboxId);
  const argv = ["sh", "-c", script, "sh", ...words];
  return (await runToEnd(sandbox, { argv, cwd: "/" })).stdout.toString();
}

/** The conversations whose held shells live. */
async function living(): Promise<number[]> {
  const numbers = Array.from({ length: 9 }, (_, index) => index + 1);
  const folders = numbers.map((number) => getHeldFolder(toId(number)));
  const script = 'for folder; do [ -e "$folder/holder" ] && echo 1 || echo 0; done';
  const states = (await inSandbox(script, ...folders)).trim().split("\n");
  return numbers.filter((_, index) => states[index] === "1");
}

const expectLiving = (numbers: number[]) =>
  vi.waitFor(async () => expect(await living()).toEqual(numbers), { timeout: 20_000, interval: 100 });

test("the shell that has rested longest ends, and the next shell has its folder and variables", async () => {
  await run(1, "cd /tmp && export KEPT='a b'");
  await run(2, "true");
  await run(3, "true");
  await run(2, "true");
  await expectLiving([1, 2, 3]);
  await run(4, "true");
  await expectLiving([2, 3, 4]);
  await run(5, "true");
  await expectLiving([2, 4, 5]);
  expect(await run(1, 'pwd; echo "$KEPT"')).toBe("/tmp\na b\n");
});

test("a shell with background jobs stays, and so does the shell of a run", async () => {
  await run(1, "sleep 600 &");
  await run(2, "true");
  awake.add(toId(2));
  await run(3, "true");
  await run(4, "true");
  await run(5, "true");
  await expectLiving([1, 2, 4, 5]);
  expect(await run(1, "jobs")).toMatch(/sleep 600/);
});

test("the shells that an earlier server has left count, and the oldest ends first", async () => {
  await run(1, "cd /tmp && export KEPT=yes");
  await inSandbox(`touch -d 2020-01-01 ${getHeldFolder(toId(1))}/call`);
  await run(2, "sleep 600 &");
  await run(3, "true");
  workspaces.close();
  await bench.service.close();
  await bench.serve({ specs: [spec] });
  workspaces = openWorkspaces();
  await run(4, "true");
  await expectLiving([2, 3, 4]);
  await run(5, "true");
  await expectLiving([2, 4, 5]);
  expect(await run(1, 'pwd; echo "$KEPT"')).toBe("/tmp\nyes\n");
});
