import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { networkInterfaces } from "node:os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Place, specs, useArena } from "./arena.ts";

/** Attacks on other sandboxes, on the host and on resources that all sandboxes share. */

const word = `trace-${randomUUID()}`;
/** The platform listens on every address of the machine, so that each of them could lead to it. */
const arena = useArena(() => ({
  specs: specs.map((spec) => ({ ...spec, network: { mode: "open" } })),
  config: { host: "0.0.0.0" },
}));
let attacker: Place;
let victim: Place;
const local: Server[] = [];
const answer = "of the host";

beforeAll(async () => {
  [attacker, victim] = await Promise.all([arena.place(), arena.place()]);
  for (const where of [
    { host: "127.0.0.1", port: 0 },
    { host: "::1", port: 0 },
    { path: `\0${word}-host` },
  ]) {
    const server = createServer((socket) => socket.on("error", () => {}).end(answer)).listen(where);
    await once(server, "listening");
    local.push(server);
  }
});
afterAll(() => {
  for (const server of local) server.close();
});

/** Starts a script of `attacks/` that runs until its stdin ends; returns its first line. */
async function start(place: Place, script: string, ...args: string[]) {
  const text = readFileSync(new URL(`attacks/${script}`, import.meta.url), "utf8");
  const process = await (await place.handle()).exec({ argv: ["python3", "-c", text, ...args] });
  const line = String((await once(process.stdout, "data"))[0]);
  const end = () => {
    process.stdin.end();
    return process.exit;
  };
  return { line, end };
}

test("the server, the host, the metadata address and other sandboxes cannot be reached with any proxy's token", async () => {
  const traces = await start(victim, "leave_traces.py", word);
  const port = Number(new URL(arena.server.url).port);
  const machine = Object.values(networkInterfaces()).flatMap((all) => all!.map(({ address }) => address));
  const ports = local.slice(0, 2).map((server) => (server.address() as AddressInfo).port);
  const addresses = [
    ...[...machine, "0.0.0.0", "127.0.0.2", "127.0.1.1", "::ffff:127.0.0.1", "::"].map((host) => [
      host,
      port,
    ]),
    ...["169.254.169.254", "fd00:ec2::254", "100.100.100.200"].map((host) => [host, 80]),
    ["127.0.0.1", ports[0]],
    ["::1", ports[1]],
    ["127.0.0.1", 8080],
    ["::1", 8081],
  ];
  const foreign = (await victim.run('printf %s "$http_proxy"')).out;
  expect(foreign).toMatch(/^http:\/\/plain:/);
  const names = [word, `${word}-host`, "/tmp/.X11-unix/X0"];
  const results: Record<string, string> = await attacker.attack(
    "reach.py",
    ...[addresses, names].map((x) => JSON.stringify(x)),
    foreign,
  );
  expect(Object.keys(results).length).toBe(addresses.length * 6 + names.length);
  for (const [way, result] of Object.entries(results))
    expect([way, result]).toEqual([
      way,
      expect.stringMatching(way.includes("foreign") ? /^HTTP\/1\.1 407 / : /^(error |HTTP\/1\.1 403 )/),
    ]);
  await traces.end();
});

test("shared kernel objects show neither another sandbox nor the server", async () => {
  const traces = await start(victim, "leave_traces.py", word);
  expect((await victim.attack("find_traces.py", word)).length).toBeGreaterThan(8);
  expect(await attacker.attack("find_traces.py", word)).toEqual([]);
  await traces.end();
  const { dataDir } = arena.server;
  const { out: secrets } = await attacker.run(
    `ls ${dataDir} ${dataDir}/sandboxes; find / \\( -name vault.key -o -name '*.sqlite*' -o -name authority.pem \\) -not -path '/usr/*'`,
  );
  expect(secrets).toBe("");
  const { out: shown } = await attacker.run(
    "cat /proc/self/mountinfo /proc/*/environ /proc/*/maps /proc/*/cmdline",
  );
  expect(shown.length).toBeGreaterThan(1_000);
  for (const secret of [dataDir, arena.server.key]) expect(shown).not.toContain(secret);
});

test("a sandbox that takes all it can leaves limited machine resources to others", async () => {
  const hog = await start(attacker, "machine_tables.py");
  expect(JSON.parse(hog.line)).toEqual({ terminals: 128 });
  const other = await start(victim, "machine_tables.py");
  expect(other.line).toBe(hog.line);
  await Promise.all([hog.end(), other.end()]);
  expect((await victim.run(["tty"], { tty: { cols: 80, rows: 24 } })).out).toMatch(/\/dev\/pts\/\d+/);
});
