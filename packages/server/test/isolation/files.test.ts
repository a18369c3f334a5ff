import { randomUUID } from "node:crypto";
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readFile, writeFile } from "@sandpiper/sandbox/files/files";
import { beforeAll, describe, expect, test } from "vitest";
import { type Place, specs, useArena } from "./arena.ts";

/** File routes over hostile files of a sandbox: nothing leaves the sandbox and nothing blocks. */

const marker = `host-${randomUUID()}`;
let host: string;
const arena = useArena((folder) => {
  host = join(folder, "host");
  mkdirSync(host);
  writeFileSync(join(host, "secret"), marker);
  return { specs };
});
let place: Place;
beforeAll(async () => {
  place = await arena.place("?sandbox_spec_id=root");
});

const hostNow = () => [
  readdirSync(host),
  readFileSync(join(host, "secret"), "utf8"),
  lstatSync(join(host, "secret")).ctimeMs,
];
const archive = (path: string) => `/archive?path=${encodeURIComponent(path)}`;

/** Calls every file route on a path; returns the answers. */
async function everyRoute(path: string): Promise<{ status: number; text: string }[]> {
  const answers: Response[] = [];
  for (const method of ["GET", "HEAD"]) answers.push(await place.file(method, path));
  answers.push(await place.route("GET", `/files/list?path=${encodeURIComponent(path)}`));
  answers.push(await place.route("GET", archive(path)));
  answers.push(await place.file("PUT", path, "new"));
  answers.push(
    await place.route("PUT", archive(path), { body: tar, headers: { "content-type": "application/x-tar" } }),
  );
  answers.push(await place.file("DELETE", path));
  answers.push(await place.route("DELETE", `/files?recursive=true&path=${encodeURIComponent(path)}`));
  return Promise.all(
    answers.map(async (answer) => ({ status: answer.status, text: await answer.text().catch(String) })),
  );
}

/** An archive with the file `planted` in it. */
const tar = (() => {
  const header = Buffer.alloc(512);
  header.write("planted");
  header.write("0000644\0", 100);
  header.write("00000000003\0", 124);
  header.write("00000000000\0", 136);
  header.write("        0", 148);
  header.write("ustar\x0000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return new Uint8Array(Buffer.concat([header, Buffer.from("new"), Buffer.alloc(512 - 3 + 1024)]));
})();

describe("no host file is read, written or removed", () => {
  test.each([
    ["an absolute path", () => `${host}/secret`, ""],
    ["a folder", () => host, ""],
    ["a path that climbs", () => `../../../../../../../..${host}/secret`, ""],
    ["a path that climbs from the root", () => `/../../..${host}/secret`, ""],
    ["a link", () => "link", 'ln -sfn "$1/secret" link'],
    ["a link to a folder", () => "folder/secret", 'ln -sfn "$1" folder'],
    ["a link that climbs", () => "climb", 'ln -sfn "../../../../../../..$1/secret" climb'],
    ["a chain of links", () => "a/b/secret", 'ln -sfn / a; ln -sfn "$1" /b'],
    ["the root of another process", () => `/proc/1/root${host}/secret`, ""],
    ["the root of the command itself", () => `/proc/self/root${host}/secret`, ""],
    ["a folder of the command itself", () => `/proc/self/cwd/../../../..${host}/secret`, ""],
    ["a descriptor of the command itself", () => "/proc/self/fd/3", ""],
    ["a hard link", () => "hard", 'ln -f "$1/secret" hard'],
    ["a folder of devices", () => "/dev/fd/../../../..${host}", ""],
  ])("by %s", async (_, path, prepare) => {
    const before = hostNow();
    await place.run(["sh", "-c", `${prepare}; true`, "sh", host]);
    for (const { status, text } of await everyRoute(path())) {
      expect(text).not.toContain(marker);
      expect(status).toBeLessThan(500);
    }
    expect(hostNow()).toEqual(before);
  });
});

describe("a file route answers with a readable error", () => {
  test.each([
    ["a pipe", "mkfifo odd"],
    ["a pipe behind a link", "mkfifo behind; ln -sfn behind odd"],
    ["a socket", "python3 -c 'import socket; socket.socket(1).bind(\"odd\")'"],
    ["a link to itself", "ln -sfn odd odd"],
    ["a link to a device", "ln -sfn /dev/tty odd"],
    ["a link to the terminals", "ln -sfn /dev/ptmx odd"],
    ["a file that is longer than it says", "ln -sfn /proc/self/mem odd"],
    ["a file of the kernel that waits", "ln -sfn /proc/kmsg odd"],
    ["a file whose reading waits", "ln -sfn /proc/1/stack odd"],
    [
      "a folder as deep as can be",
      'python3 -c \'import os\nfor i in range(1000): os.mkdir("odd"); os.chdir("odd")\'',
    ],
    ["a name that is no text", "touch \"$(printf '\\377\\376')\"; ln -sfn \"$(printf '\\377\\376')\" odd"],
  ])("for %s", async (_, prepare) => {
    await place.run(`rm -rf odd behind; ${prepare}`);
    const began = performance.now();
    for (const { status } of await everyRoute("odd")) expect(status).toBeLessThan(500);
    const box = await place.handle();
    await readFile(box, "odd");
    await writeFile(box, "odd", "x").catch((error) => expect(error.code).toBe("InvalidParameter"));
    expect(performance.now() - began).toBeLessThan(30_000);
  });

  test("for a device that never ends, which is not read", async () => {
    await place.run("ln -sfn /dev/zero odd");
    expect((await place.file("GET", "odd")).status).toBe(422);
    expect(await readFile(await place.handle(), "odd")).toMatchObject({ kind: "unreadable" });
  });
});

test("a loop that swaps a folder and a link to a host folder lets no request out", async () => {
  const before = hostNow();
  const swap = `mkdir -p real swap; echo mine >real/secret; ln -sfn "$1" trap
while :; do mv -T swap other; mv -T trap swap; mv -T swap trap; mv -T other swap; done`;
  const loop = await (await place.handle()).exec({ argv: ["sh", "-c", swap, "sh", host] });
  const end = Date.now() + 1_500;
  const answers: string[] = [];
  while (Date.now() < end) {
    const results = await Promise.all(
      ["swap/secret", "other/secret", "trap/secret", "swap"].map((path) => everyRoute(path)),
    );
    answers.push(...results.flat().map(({ text }) => text));
  }
  loop.kill();
  await loop.exit;
  expect(answers.join("\n")).not.toContain(marker);
  expect(hostNow()).toEqual(before);
});
