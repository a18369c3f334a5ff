import { mkdtempSync, rmSync } from "node:fs";
import { contentText } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { PreparedSpec } from "../../src/driver.ts";
import { KubernetesDriver } from "../../src/drivers/kubernetes/kubernetes-driver.ts";
import { openTerminal } from "../../src/shell/terminal.ts";
import { Registries } from "../../src/specs/registries.ts";
import { createHostSpec } from "../../src/specs/specs.ts";
import { run, suiteLimits } from "../driver-suite/context.ts";
import { clusterImage, clusterKubeconfig, loadClusterImage } from "../support/cluster-image.ts";
import { killProcess, openSandbox, startTerminalProcess } from "../support/terminal-process.ts";

/** Commands in pods outlive a server that is killed. */

const id = "held";
let dir: string;
let spec: PreparedSpec;
let driver: KubernetesDriver;
const options = () => ({ kubeconfig: clusterKubeconfig(), installation: "held", runtimeClass: "runc" });

beforeAll(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  loadClusterImage();
  driver = new KubernetesDriver({
    dir,
    ...options(),
    registries: new Registries({ allowed: ["sandpiper.test"] }),
  });
  await driver.open();
  const root = { kind: "image" as const, reference: clusterImage };
  spec = await driver.prepare({ ...createHostSpec(suiteLimits), root, user: "agent", capabilities: [] });
  await driver.start({ id, spec });
});

afterAll(async () => {
  await driver.reap({ sandboxes: new Set(), snapshots: new Set() });
  await driver.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Runs a command in a process, kills the process once it prints the text, and repeats the call. */
async function killAndRepeat(command: string, seen: string, { epoch = 1, callId = "call" } = {}) {
  const held = { folder: `/tmp/terminal_output/${callId}`, epoch: 1 };
  const server = startTerminalProcess({ dir, id, spec, held, command, callId, kubernetes: options() });
  for await (const line of server.lines) if (line.includes(seen)) break;
  await killProcess(server.child);
  const terminal = openTerminal(openSandbox(driver, id, spec), { held: { ...held, epoch }, quietMs: 3_000 });
  const action = { kind: "TerminalAction", command, is_input: false, reset: false } as const;
  const call = { id: callId, isRepeated: true };
  const observation = await terminal.run(action, new AbortController().signal, () => {}, call);
  return { terminal, observation };
}

test("a command goes on when its server is killed, and the next server gets all of its output", async () => {
  const lines = Array.from({ length: 40 }, (_, at) => `line ${at + 1}\n`).join("");
  const command =
    "export KEPT=1; echo x >>ran; for i in $(seq 1 40); do echo line $i; sleep 0.05; done; (exit 3)";
  const { terminal, observation } = await killAndRepeat(command, "line 3");
  expect(contentText(observation.content)).toBe(lines);
  expect(observation.exit_code).toBe(3);
  expect((await run(driver, id, "cat ran")).out).toBe("x\n");
  const next = { kind: "TerminalAction", command: "echo $KEPT", is_input: false, reset: false } as const;
  expect(contentText((await terminal.run(next, new AbortController().signal)).content)).toBe("1\n");
  await terminal.close();
});

test("the next server gets the exit code of a command that ended without a server", async () => {
  const command = "echo begin; sleep 0.3; echo end; (exit 4)";
  const { terminal, observation } = await killAndRepeat(command, "begin", { callId: "short", epoch: 2 });
  expect(contentText(observation.content)).toBe("begin\nend\n");
  expect(observation.exit_code).toBe(4);
  await terminal.close();
});

test("the terminal of a held shell belongs to its user, who cannot become root through it", async () => {
  const { terminal, observation } = await killAndRepeat("id -u; tty; sleep 1; stat -c %U $(tty)", "pts", {
    callId: "user",
  });
  expect(contentText(observation.content)).toMatch(/^1000\n\/dev\/pts\/\d+\nagent\n$/);
  expect((await run(driver, id, "echo x >/run/sandpiper-programs/busybox")).code).not.toBe(0);
  await terminal.close();
});
