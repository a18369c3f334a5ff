import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestDriver, run, testSpec } from "../../test/support/oci.ts";
import type { OciDriver } from "../drivers/oci/oci-driver.ts";
import { writeSparse } from "../tar/sparse-map.ts";
import { padding, writeHeader } from "../tar/tar-header.ts";
import { unpackArchive } from "./archives.ts";
import type { CommandRunner } from "./files.ts";

let driver: OciDriver;
let end: () => Promise<void>;

beforeAll(async () => {
  ({ driver, end } = await openTestDriver());
  await driver.start({ id: "sparse", spec: testSpec });
});
afterAll(() => end());

const inside = async (command: string) => (await run(driver, "sparse", command)).out;

/** The sandbox with another tar. */
const withTar = (path: string): CommandRunner => ({
  shell: driver.shell,
  exec: (command) =>
    driver.exec("sparse", {
      ...command,
      argv: command.argv.map((word) => word.replace("in /bin/tar", `in ${path}`)),
    }),
});

test("unpacks the holes of files as holes, or fills them where the sandbox's tar cannot read them", async () => {
  const long = `deep/${"long name ".repeat(12)}`;
  const data = [Buffer.alloc(512, "begin"), Buffer.alloc(70_000, "x")];
  const extents = [
    { from: 0, length: 512 },
    { from: 5_000_001, length: 70_000 },
  ];
  const sparse = (path: string, size: number, pieces: number) => {
    const bytes = Buffer.concat(data.slice(0, pieces));
    const head = writeSparse({ path, size, mode: 0o644, mtime: 1e9 }, extents.slice(0, pieces));
    return Buffer.concat([head, bytes, padding(bytes.length)]);
  };
  const plain = Buffer.concat([writeHeader({ path: "./plain", size: 5 }), Buffer.from("plain"), padding(5)]);
  const archive = Buffer.concat([
    sparse(`./${long}`, 20_000_003, 2),
    plain,
    sparse("./end", 5_070_001, 2),
    sparse("./hole", 3_000_000, 0),
    sparse("./full", 512, 1),
    Buffer.alloc(1024),
  ]);
  await inside("mkdir -p /tmp/bb; ln -s /run/sandpiper/busybox /tmp/bb/tar");
  const facts: string[] = [];
  for (const [folder, runner] of [
    ["/tmp/z3", withTar("/bin/tar")],
    ["/tmp/z4", withTar("/tmp/bb/tar")],
  ] as const) {
    const chunks = Array.from({ length: Math.ceil(archive.length / 1_000) }, (_, n) =>
      archive.subarray(n * 1_000, (n + 1) * 1_000),
    );
    await unpackArchive(runner, folder, Readable.from(chunks, { objectMode: false }), { sparse: true });
    facts.push(
      await inside(
        `cd ${folder} && find . -type f -exec sha256sum {} + | sort -k2; stat -c '%s %Y %n' end; find . -name 'long*' -exec stat -c '%n %s' {} +; cat plain full`,
      ),
    );
  }
  expect(facts[0]).toContain(`./${long} 20000003`);
  expect(facts[0]).toContain("5070001 1000000000 end");
  expect(facts[1]).toBe(facts[0]);
  expect(await inside("du -sm /tmp/z3; du -sm /tmp/z4; rm -r /tmp/z3 /tmp/z4 /tmp/bb")).toMatch(
    /^[01]\t.*\n2\d\t/,
  );
});
