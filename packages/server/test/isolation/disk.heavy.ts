import { statfsSync } from "node:fs";
import { openTerminal } from "@sandpiper/sandbox/shell/terminal";
import { describe, expect, test } from "vitest";
import { type Json, until } from "../support/platform.ts";
import { specs, useArena } from "./arena.ts";

/** Attacks on the disk, and floods, of a size that takes a while. */

const arena = useArena(() => ({
  specs: specs.map((spec) => ({ ...spec, limits: { ...spec.limits, memory: "512M", disk: "256M" } })),
}));
const free = () => {
  const { bavail, bsize } = statfsSync(arena.server.dataDir);
  return bavail * bsize;
};

describe("a sandbox that fills the disk", () => {
  test.each([
    ["with one file", "head -c 100G /dev/zero >big"],
    ["with files that have no name", "exec 3>big; rm big; head -c 100G /dev/zero >&3"],
    [
      "with files in every place that it may write",
      "for d in /tmp /var/tmp . ~; do head -c 25G /dev/zero >$d/big & done; wait",
    ],
    ["by reserving", "i=0; while fallocate -l 64M r$i; do i=$((i+1)); done"],
  ])(
    "%s is stopped with a reason, and continues when files are deleted",
    async (_, command) => {
      const before = free();
      const place = await arena.place();
      const filler = await (await place.handle()).exec({ argv: ["sh", "-c", `${command}; sleep 100`] });
      filler.stdout.resume();
      const stopped = await until(async () => {
        const [sandbox] = (await arena.server.call("GET", `/api/v1/sandboxes?id=${place.id}`)).body;
        return sandbox.status === "RUNNING" ? undefined : sandbox;
      });
      expect(stopped.status_detail).toMatch(/was stopped because its files take .* resume it and delete/);
      await filler.exit;
      expect(before - free()).toBeLessThan(30 * 2 ** 30);
      expect((await place.route("POST", "/resume")).status).toBe(200);
      expect((await place.run("rm -rf big r* /tmp/big /var/tmp/big ~/big; echo alive")).out).toBe("alive\n");
      expect((await place.route("DELETE", "")).status).toBe(200);
      await until(async () => before - free() < 2 ** 28 || undefined);
    },
    60_000,
  );
});

test("100,000 files are created, listed, archived, removed and deleted with their sandbox", async () => {
  const place = await arena.place();
  const make =
    "import os\nfor d in range(100):\n  os.makedirs(f'many/{d}')\n  for f in range(1000): open(f'many/{d}/{f}', 'w').close()\nfor f in range(20000): open(f'{f:0200}', 'w').close()";
  expect(await place.run(["python3", "-c", make], { timeoutMs: 60_000 })).toMatchObject({ code: 0 });
  let page: string | null = "";
  let names = 0;
  do {
    const answer = await place.route("GET", `/files/list?limit=100${page && `&page_id=${page}`}`);
    const body = await answer.text();
    expect([answer.status, body]).toEqual([200, expect.anything()]);
    const { items, next_page_id } = JSON.parse(body);
    names += items.length;
    page = names < 1_000 ? next_page_id : null;
  } while (page);
  expect(names).toBeGreaterThanOrEqual(1_000);
  const packed = await place.route("GET", "/archive?path=many", { signal: AbortSignal.timeout(60_000) });
  let bytes = 0;
  for await (const chunk of packed.body!) bytes += chunk.length;
  expect(bytes).toBeGreaterThan(100_000 * 512);
  expect((await place.route("DELETE", "/files?recursive=true&path=many/1")).status).toBe(200);
  const snapshot = await place.route("POST", "/snapshots");
  expect(snapshot.status).toBe(201);
  expect(
    (await arena.server.call("DELETE", `/api/v1/snapshots/${((await snapshot.json()) as Json).id}`)).status,
  ).toBeLessThan(300);
  expect((await place.route("DELETE", "", { signal: AbortSignal.timeout(60_000) })).status).toBe(200);
}, 180_000);

test("folders 1,000 and 20,000 deep, with long names, are removed with their sandbox", async () => {
  const place = await arena.place();
  const dig = (levels: number, length: number) =>
    `import os\nfor i in range(${levels}):\n  os.mkdir('d' * ${length}); os.chdir('d' * ${length})`;
  for (const [levels, length] of [
    [1_000, 1],
    [20_000, 1],
    [500, 255],
  ] as const)
    expect(
      await place.run([
        "sh",
        "-c",
        `mkdir d${levels}; cd d${levels}; exec python3 -c "$1"`,
        "sh",
        dig(levels, length),
      ]),
    ).toMatchObject({ code: 0 });
  expect((await place.route("DELETE", "/files?recursive=true&path=d1000")).status).toBe(200);
  for (const path of ["d20000", "d500"])
    expect((await place.route("GET", `/archive?path=${path}`)).status).toBeLessThan(500);
  expect((await place.route("DELETE", "")).status).toBe(200);
}, 60_000);

describe("a flood of ten seconds", () => {
  test("through a command and a terminal at once does not increase the server's memory or delay others", async () => {
    const [place, bystander] = [await arena.place(), await arena.place()];
    const before = process.memoryUsage().rss;
    const flood = await (await place.handle()).exec({ argv: ["sh", "-c", "yes >&2 & exec yes"] });
    let bytes = 0;
    for (const stream of [flood.stdout, flood.stderr])
      stream.on("data", (chunk: Buffer) => (bytes += chunk.length));
    const terminal = openTerminal(await place.handle());
    const running = terminal.run(
      { kind: "TerminalAction", command: "yes", is_input: false, timeout: 10, reset: false },
      new AbortController().signal,
    );
    const began = performance.now();
    while (performance.now() - began < 10_000)
      expect((await bystander.run("echo alive")).out).toBe("alive\n");
    expect(bytes / 10).toBeGreaterThan(100e6);
    expect(process.memoryUsage().rss - before).toBeLessThan(300 * 2 ** 20);
    flood.kill();
    await running;
    terminal.close();
    await flood.exit;
  }, 60_000);
});
