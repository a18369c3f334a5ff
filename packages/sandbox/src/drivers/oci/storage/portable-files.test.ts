import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  openTestDriver,
  run,
  startDriverProcess,
  testSpec,
  workingRuntimes,
} from "../../../../test/support/oci.ts";
import type { FilesOf } from "../../../driver.ts";
import type { OciDriver } from "../oci-driver.ts";

const sandbox = (id: string): FilesOf => ({ kind: "sandbox", id });
const snapshot = (id: string): FilesOf => ({ kind: "snapshot", id });
const { signal } = new AbortController();

/** Writes files of every kind, in the home of the user and as they come through a root. */
const write = `cd ~ && echo text >plain && chmod 640 plain && ln plain hard && ln -s ../nowhere soft &&
  mkdir -p deep/er && mkfifo deep/pipe && touch -d '2001-02-03 04:05:06.789' deep/old &&
  truncate -s 50M sparse && printf end >>sparse && printf '%s' 'odd name' >"$(printf 'a\\nb -- *')" &&
  chmod 2750 deep && rm -f .profile`;
const look = `cd ~ && find . -printf '%p %y %m %U:%G %s %n %l %T@\\n' | sort; md5sum plain hard sparse; du -k sparse | cut -f1 | awk '{ print ($1 < 100) }'`;

describe.each(await workingRuntimes())("files that move between two drivers over %s", (runtime) => {
  let here: { driver: OciDriver; dir: string; end: () => Promise<void> };
  let there: typeof here;
  beforeAll(async () => {
    here = await openTestDriver(runtime);
    there = await openTestDriver(runtime);
  });
  afterAll(async () => {
    await here.end();
    await there.end();
  });

  const move = (of: FilesOf) =>
    there.driver.files.import(of, testSpec, here.driver.files.export(of, signal), signal);
  const out = async (driver: OciDriver, id: string, command: string) => (await run(driver, id, command)).out;
  const imports = () => readdirSync(join(there.dir, "imports"));

  test("owners, modes, links, holes, times and odd names stay the same", async () => {
    await here.driver.start({ id: "one", spec: testSpec });
    const written = await run(here.driver, "one", write);
    expect(written).toMatchObject({ code: 0, err: "" });
    const before = await out(here.driver, "one", look);
    expect(before).toContain("./hard f 640");
    await here.driver.stop("one");
    expect(await there.driver.files.has(sandbox("one"))).toBe(false);
    await move(sandbox("one"));
    expect(await there.driver.files.has(sandbox("one"))).toBe(true);
    expect(await there.driver.list()).toEqual([{ id: "one", state: "stopped" }]);
    await there.driver.start({ id: "one", spec: testSpec });
    expect(await out(there.driver, "one", look)).toBe(before);
    expect(imports()).toEqual([]);
  });

  test("a deleted file of a snapshot stays deleted in later snapshots and sandboxes", async () => {
    await here.driver.start({ id: "two", spec: testSpec });
    await run(here.driver, "two", "cd ~; mkdir d; echo 1 >gone; echo 2 >d/inner; echo 3 >stays");
    await here.driver.snapshot("two", "snap");
    await here.driver.start({ id: "two", spec: testSpec });
    await run(here.driver, "two", "cd ~; rm -r gone d; mkdir d; echo 4 >d/other");
    const before = await out(here.driver, "two", "cd ~; find . | sort; cat stays d/other");
    await here.driver.stop("two");
    await move(sandbox("two"));
    await move(snapshot("snap"));
    await there.driver.start({ id: "two", spec: testSpec });
    expect(await out(there.driver, "two", "cd ~; find . | sort; cat stays d/other")).toBe(before);
    await there.driver.start({ id: "three", spec: testSpec, snapshot: "snap" });
    expect(await out(there.driver, "three", "cd ~; cat gone d/inner stays; ls d")).toBe("1\n2\n3\ninner\n");
    expect(await there.driver.snapshots()).toEqual(["snap"]);
    await there.driver.reap({ sandboxes: new Set(["one", "two", "three"]), snapshots: new Set(["snap"]) });
    expect(await out(there.driver, "three", "cat ~/gone")).toBe("1\n");
  });

  test("an import refuses damaged, foreign and incomplete files, and leaves no file", async () => {
    const whole = Buffer.concat(await Array.fromAsync(here.driver.files.export(sandbox("two"), signal)));
    const end = whole.indexOf("\n");
    const manifest = JSON.parse(whole.toString("utf8", 0, end));
    const withManifest = (change: object) =>
      Buffer.concat([Buffer.from(JSON.stringify({ ...manifest, ...change })), whole.subarray(end)]);
    const refused: [Buffer, RegExp][] = [
      [Buffer.alloc(0), /do not begin with a manifest/],
      [randomBytes(200_000), /do not begin with a manifest/],
      [withManifest({ format: "sandpiper-layers-2" }), /another version or another driver/],
      [withManifest({ layers: ["../../etc"] }), /manifest is damaged/],
      [withManifest({ layers: [...manifest.layers, "more"] }), /other layers than it says/],
      [withManifest({ rootless: !manifest.rootless }), /other ids/],
      [whole.subarray(0, Math.floor(whole.length * 0.4)), /could not be restored/],
      [Buffer.concat([whole.subarray(0, end + 1), randomBytes(10_000)]), /could not be restored/],
    ];
    for (const [bytes, reason] of refused) {
      const source = (async function* () {
        yield bytes;
      })();
      await expect(there.driver.files.import(sandbox("bad"), testSpec, source, signal)).rejects.toThrow(
        reason,
      );
      expect(await there.driver.files.has(sandbox("bad"))).toBe(false);
      expect(imports()).toEqual([]);
    }
    const abort = new AbortController();
    const slow = (async function* () {
      yield whole.subarray(0, 5_000);
      abort.abort(new Error("no longer wanted"));
      yield whole.subarray(5_000);
    })();
    await expect(there.driver.files.import(sandbox("bad"), testSpec, slow, abort.signal)).rejects.toThrow(
      "no longer wanted",
    );
    expect(imports()).toEqual([]);
  });

  test("a process that is killed during an import leaves no sandbox, and the next import succeeds", async () => {
    const child = startDriverProcess(
      `await driver.open();
       const { signal } = new AbortController();
       const from = new OciDriver(${JSON.stringify({ dir: here.dir, runtime })});
       await from.open();
       const slow = async function* () {
         for await (const chunk of from.files.export({ kind: "sandbox", id: "one" }, signal)) {
           yield chunk;
           console.log("some");
           await new Promise((resolve) => setTimeout(resolve, 50));
         }
         await new Promise((resolve) => setInterval(resolve, 1e6));
       };
       await driver.files.import({ kind: "sandbox", id: "killed" }, ${JSON.stringify(testSpec)}, slow(), signal);`,
      there.dir,
      runtime,
    );
    await new Promise((resolve) => child.stdout!.once("data", resolve));
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    expect(await there.driver.files.has(sandbox("killed"))).toBe(false);
    expect(imports()).toEqual(["sandbox-killed"]);
    const source = here.driver.files.export(sandbox("one"), signal);
    await there.driver.files.import(sandbox("killed"), testSpec, source, signal);
    await there.driver.start({ id: "killed", spec: testSpec });
    expect(await out(there.driver, "killed", "cat ~/plain")).toBe("text\n");
    expect(imports()).toEqual([]);
    mkdirSync(join(there.dir, "imports", "sandbox-left"));
    utimesSync(join(there.dir, "imports", "sandbox-left"), 1, 1);
    await there.driver.files.removeLeftovers();
    expect(existsSync(join(there.dir, "imports", "sandbox-left"))).toBe(false);
  });
});
