import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { type BashLimits, BashService } from "@sandpiper/sandbox/shell/commands/service";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { ServiceBench } from "../support/sandbox-service.ts";

/** Limits of running and stored commands, in a real sandbox. */

let bench: ServiceBench;
let row: SandboxRow;
const open: BashService[] = [];
const logger = { warn() {} };
const folder = () => join(bench.dir, "bash");

beforeAll(async () => {
  bench = await new ServiceBench().open();
  const sandboxes = await bench.serve();
  row = await sandboxes.create("ann");
  await sandboxes.running(row.id);
  row = (await sandboxes.get("ann", row.id))!;
});
afterEach(async () => {
  for (const service of open.splice(0)) await service.close();
});
afterAll(() => bench.end());

function serve(limits: Partial<BashLimits> = {}): BashService {
  const service = new BashService({ dir: folder(), sandboxes: bench.service, logger, limits });
  open.push(service);
  return service;
}

const all = async (service: BashService) =>
  (await service.search(row.id, { limit: 100 })).items.map((json) => JSON.parse(String(json)));
const commands = async (service: BashService) => (await all(service)).flatMap(({ command }) => command ?? []);
const run = async (service: BashService, command: string) =>
  JSON.parse(await service.execute(row, { command }));

test("a limited number of commands run, others wait in order, and more are refused", async () => {
  const service = serve({ running: 1, waiting: 30 });
  const loop = "until [ -e /tmp/open ]; do sleep 0.02; done; echo open";
  const gate = service.execute(row, { command: loop });
  const waiting = Array.from({ length: 30 }, (_, index) =>
    service.execute(row, { command: `echo ${index} >> /tmp/order` }),
  );
  await expect(service.start(row, { command: "true" })).rejects.toMatchObject({
    code: "TooManyRequests",
    status: 429,
  });
  expect((await all(service)).filter(({ kind }) => kind === "BashOutput")).toEqual([]);
  const process = await (await bench.service.running(row.id)).exec({ argv: ["touch", "/tmp/open"] });
  await process.exit;
  expect(JSON.parse(await gate).stdout).toBe("open\n");
  for (const output of await Promise.all(waiting)) expect(JSON.parse(output).exit_code).toBe(0);
  const order = Array.from({ length: 30 }, (_, index) => `${index}\n`).join("");
  expect(await run(service, "cat /tmp/order")).toMatchObject({ stdout: order });
  await service.clear(row.id);
});

test("the oldest ended commands are removed when there are too many, or their output is too large", async () => {
  const few = serve({ commands: 3 });
  for (const name of ["a", "b", "c", "d"]) await run(few, `echo ${name}`);
  expect(await commands(few)).toEqual(["echo b", "echo c", "echo d"]);
  expect(readdirSync(join(folder(), row.id))).toHaveLength(3);
  await few.clear(row.id);
  expect(readdirSync(join(folder(), row.id))).toEqual([]);

  const small = serve({ bytes: 500_000 });
  for (const name of ["a", "b", "c", "d"])
    await run(small, `: ${name}; head -c 200000 /dev/zero | tr '\\0' x`);
  // The last command is kept completely, whatever its size.
  expect((await commands(small)).map((command) => command[2])).toEqual(["b", "c", "d"]);
  await small.clear(row.id);
});

test("a long output keeps its beginning and end, with a notice about the rest", async () => {
  const service = serve({ keptBytes: 1_000_000 });
  const { id } = JSON.parse(await service.start(row, { command: "seq 1 1000000; echo last" }));
  const outputs = async () => (await all(service)).filter(({ command_id }) => command_id === id);
  await expect.poll(async () => (await outputs()).at(-1)?.exit_code).toBe(0);
  const text = (await outputs()).map(({ stdout }) => stdout ?? "").join("");
  expect(text).toMatch(
    /^1\n2\n3\n[\d\n]+\[\d+ bytes of the output are left out here: [^\]]*\]\n[\d\n]+\n999999\n1000000\nlast\n$/,
  );
  expect(text.length).toBeLessThan(1_500_000);
  await service.clear(row.id);
});

test("unused histories are unloaded from memory and loaded again unchanged", async () => {
  const service = serve({ histories: 1 });
  await run(service, "echo kept");
  const before = await all(service);
  for (const other of ["one", "two", "three"])
    expect((await service.search(other, { limit: 10 })).items).toEqual([]);
  expect(await all(service)).toEqual(before);
  const later = serve();
  expect(await all(later)).toEqual(before);
  const output = await run(later, "echo more");
  expect(output.timestamp > before.at(-1).timestamp).toBe(true);
  expect(await later.clear(row.id)).toBe(4);
});

test("other files and truncated logs are ignored", async () => {
  const first = serve();
  await run(first, "echo kept");
  const before = await all(first);
  const [name] = readdirSync(join(folder(), row.id));
  for (const junk of ["12", '999999 {"id":"', `50 {"id":"${"0".repeat(32)}","timestamp":"x"}\n`, "\0\0\0"]) {
    writeFileSync(join(folder(), row.id, name!), junk, { flag: "a" });
    writeFileSync(join(folder(), row.id, "notes.txt"), junk);
    writeFileSync(join(folder(), row.id, `${"1".repeat(32)}.log`), junk);
    expect(await all(serve())).toEqual(before);
  }
  await serve().open(async () => false);
  expect(readdirSync(folder())).toEqual([]);
});

test("closing the service ends running commands and refuses new ones", async () => {
  const service = serve();
  const running = service.execute(row, { command: "echo begun; sleep 600" });
  await service.start(row, { command: "sleep 600" });
  const waiting = all(service);
  await service.close();
  expect(JSON.parse(await running)).toMatchObject({
    exit_code: -1,
    stderr: expect.stringContaining("The server was ended"),
  });
  expect((await waiting).length).toBeGreaterThan(0);
  await expect(service.start(row, { command: "true" })).rejects.toMatchObject({ code: "SandboxFailed" });
  expect((await all(serve())).filter(({ exit_code }) => exit_code === -1)).toHaveLength(2);
});

test("a command keeps its sandbox awake only until it ends", async () => {
  const idle = await new ServiceBench().open();
  try {
    const sandboxes = await idle.serve({
      idle: { pauseAfterMs: 60_000, hibernateAfterMs: 0, deleteAfterMs: 0 },
    });
    const service = new BashService({ dir: join(idle.dir, "bash"), sandboxes, logger });
    const { id } = await sandboxes.create("ann");
    await sandboxes.running(id);
    const own = (await sandboxes.get("ann", id))!;
    const running = service.execute(own, {
      command: "mkfifo /tmp/gate; touch /tmp/made; read -r line < /tmp/gate; echo $line",
    });
    await expect
      .poll(async () => (await service.execute(own, { command: "ls /tmp/made" })).includes('"exit_code":0'))
      .toBe(true);
    for (let minute = 0; minute < 5; minute++) await idle.pass(60_000);
    expect(await idle.state(id)).toBe("running");
    await service.execute(own, { command: "echo go > /tmp/gate" });
    expect(JSON.parse(await running)).toMatchObject({ stdout: "go\n", exit_code: 0 });
    await idle.pass(61_000);
    expect(await idle.state(id)).toBe("paused");
    // Reading does not wake the sandbox; a command does.
    await service.search(id, { limit: 10 });
    expect(await idle.state(id)).toBe("paused");
    expect(JSON.parse(await service.execute(own, { command: "echo awake" })).stdout).toBe("awake\n");
    await service.close();
  } finally {
    await idle.end();
  }
});
