import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { openTestDriver, run, testSpec } from "../../test/support/oci.ts";
import type { OciDriver } from "../drivers/oci/oci-driver.ts";
import type { Sandbox } from "../sandbox.ts";
import { packArchive, unpackArchive } from "./archives.ts";
import { writeScript } from "./file-scripts.ts";
import { list, readFile, runScript, stat, writeFile } from "./files.ts";
import { createFolder, listSubfolders } from "./folder-pages.ts";
import { listTree } from "./tree-listing.ts";

let driver: OciDriver;
let end: () => Promise<void>;
let sandbox: Pick<Sandbox, "exec" | "shell">;
const inside = async (command: string) => (await run(driver, "files", command)).out;

/**
 * The scripts have to work with the shell that the driver brings along as well as with a sandbox's
 * own.
 */
describe.each(["resident", "own"])("with the %s shell", (which) => {
  beforeAll(async () => {
    ({ driver, end } = await openTestDriver());
    await driver.start({ id: "files", spec: testSpec });
    sandbox = {
      exec: (command) => driver.exec("files", command),
      shell: which === "own" ? ["sh"] : driver.shell,
    };
  });
  afterAll(() => end());

  const hostile = [
    "/workspace/project/plain",
    "/workspace/project/with space/and 'quotes' \"double\"",
    "/workspace/project/new\nline",
    "/workspace/project/ends with newline\n",
    "/workspace/project/-rf",
    "/workspace/project/$(touch hacked)`id`;&|*?[a]",
    "/workspace/project/\\n\\0",
    "/workspace/project/ümläut \u{1f600}",
    "-dash",
    "-",
    "=",
    "(",
    "relative/ x",
  ];

  test.each(hostile)("writes, reads and examines a file called %j", async (path) => {
    const content = randomBytes(5_000);
    await writeFile(sandbox, path, content);
    expect(await readFile(sandbox, path)).toEqual({ kind: "file", content });
    expect(await stat(sandbox, path)).toMatchObject({ kind: "file", size: 5_000, mode: 0o644 });
    expect(await inside("ls -A /workspace/project | grep -e '^hacked$' -e '^[.]write' | wc -l")).toBe("0\n");
  });

  test("a sandbox that does not answer is an error after a minute", async () => {
    const silent: typeof sandbox = {
      ...sandbox,
      exec: async (command) => {
        const process = await sandbox.exec(command);
        vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
        setImmediate(() => {
          vi.advanceTimersByTime(60_000);
          vi.useRealTimers();
        });
        return process;
      },
    };
    await expect(runScript(silent, "exec sleep 1000", [])).rejects.toMatchObject({ code: "SandboxFailed" });
    expect(await inside("pgrep -x sleep | wc -l")).toBe("0\n");
  });

  test("pages through the folders of a folder, and creates one", async () => {
    for (const name of ["b", "B", "-x", ".hid", "a\nc", "b/below"])
      await createFolder(sandbox, `/tmp/pick/${name}`);
    await createFolder(sandbox, "/tmp/pick/b");
    await inside("ln -s b /tmp/pick/link; touch /tmp/pick/file");
    const first = await listSubfolders(sandbox, "/tmp/pick", { limit: 3 });
    expect(first.names).toEqual(["-x", "a\nc", "B"]);
    expect(await listSubfolders(sandbox, "/tmp/pick", { limit: 3, after: first.next })).toEqual({
      names: ["b"],
      next: undefined,
    });
    expect((await listSubfolders(sandbox, "/tmp/pick", { limit: 9, hidden: true })).names).toContain(".hid");
    await expect(listSubfolders(sandbox, "/tmp/pick/file", { limit: 1 })).rejects.toMatchObject({
      code: "NotAFile",
    });
    for (const path of ["/tmp/pick/file", "/tmp/pick/file/x"])
      await expect(createFolder(sandbox, path)).rejects.toMatchObject({ code: "InvalidParameter" });
    await expect(createFolder(sandbox, "/usr/x")).rejects.toMatchObject({ code: "FileForbidden" });
  });

  test("packs a folder under its own name, whatever it is", async () => {
    await writeFile(sandbox, "/tmp/named/-d/f", "x");
    await inside("cd /tmp/named && ln -s -- -d link");
    const tar = await buffer(await packArchive(sandbox, "/tmp/named/link", { named: true }));
    expect(tar.toString("latin1")).toContain("-d/f\0");
    expect(tar.toString("latin1")).not.toContain("./-d");
  });

  test("lists the files of a tree, without links, tool folders and very deep files", async () => {
    const deep = (levels: number) => Array.from({ length: levels }, (_, index) => `d${index}`).join("/");
    const names = ["-dash", "a b/new\nline", `${deep(14)}/file`, "src/build.ts"];
    for (const name of [...names, ".git/HEAD", "a b/node_modules/x/y", `${deep(15)}/file`, "build/out"])
      await writeFile(sandbox, `/tmp/tree/${name}`, "");
    await inside("ln -s / /tmp/tree/link; ln -s -- -dash /tmp/tree/other; mkfifo /tmp/tree/pipe");
    const tree = (path: string, limit: number, after?: string) => listTree(sandbox, path, { limit, after });
    expect(await tree("/tmp/tree", 10)).toEqual(names);
    expect(await tree("/tmp/tree", 2)).toEqual(names.slice(0, 2));
    for (const [index, name] of names.entries())
      expect(await tree("/tmp/tree", 2, name)).toEqual(names.slice(index + 1, index + 3));
    expect(await tree("/tmp/tree/build", 2)).toEqual(["out"]);
    await expect(tree("/tmp/tree/-dash", 2)).rejects.toMatchObject({ code: "NotAFile" });
    await expect(tree("/tmp/none", 2)).rejects.toMatchObject({ code: "FileNotFound" });
    await expect(tree("/root", 2)).rejects.toMatchObject({ code: "FileForbidden" });
  });

  test("a page of a large tree reads only the folders before its end", async () => {
    const began = performance.now();
    const page = await listTree(sandbox, "/", { limit: 50 });
    expect([page.length, page.some((name) => /^(proc|sys|dev|usr)\//.test(name))]).toEqual([50, false]);
    expect(performance.now() - began).toBeLessThan(3_000);
    expect(page).toEqual(page.toSorted());
  });

  test("refuses a NUL and an empty path", async () => {
    for (const path of ["/tmp/a\0b", ""]) {
      await expect(readFile(sandbox, path)).rejects.toMatchObject({ code: "InvalidParameter" });
      await expect(writeFile(sandbox, path, "")).rejects.toMatchObject({ code: "InvalidParameter" });
      await expect(stat(sandbox, path)).rejects.toMatchObject({ code: "InvalidParameter" });
      await expect(list(sandbox, path)).rejects.toMatchObject({ code: "InvalidParameter" });
    }
  });

  test("reports why a path cannot be read", async () => {
    await inside(
      "mkdir -p /tmp/r/d; mkfifo /tmp/r/fifo; echo x >/tmp/r/closed; chmod 0 /tmp/r/closed; ln -s nowhere /tmp/r/dangling; head -c 100 /dev/zero >/tmp/r/big",
    );
    expect(await readFile(sandbox, "/tmp/r/none")).toEqual({ kind: "missing" });
    expect(await readFile(sandbox, "/tmp/r/big/below")).toEqual({ kind: "missing" });
    expect(await readFile(sandbox, "/tmp/r/dangling")).toEqual({ kind: "missing" });
    expect(await readFile(sandbox, "/tmp/r/d")).toEqual({ kind: "directory" });
    expect(await readFile(sandbox, "/tmp/r/fifo")).toMatchObject({ kind: "unreadable" });
    expect(await readFile(sandbox, "/tmp/r/closed")).toEqual({
      kind: "unreadable",
      reason: "Permission denied",
    });
    expect(await readFile(sandbox, "/root/secret")).toEqual({
      kind: "unreadable",
      reason: "Permission denied",
    });
    expect(await readFile(sandbox, "/tmp/r/big", { maxBytes: 99 })).toEqual({ kind: "too_large", size: 100 });
    expect(await readFile(sandbox, "/tmp/r/big", { maxBytes: 100 })).toMatchObject({ kind: "file" });
    expect(await readFile(sandbox, "/proc/self/status")).toMatchObject({ kind: "file" });
    expect(await stat(sandbox, "/tmp/r/none")).toBeUndefined();
    expect(await stat(sandbox, "/tmp/r/d")).toMatchObject({ kind: "directory" });
    expect(await stat(sandbox, "/tmp/r/fifo")).toMatchObject({ kind: "other" });
  });

  test("carries megabytes and an empty file", async () => {
    const content = randomBytes(9 * 2 ** 20);
    await writeFile(sandbox, "/tmp/large", content);
    const back = await readFile(sandbox, "/tmp/large");
    expect(back.kind === "file" && back.content.equals(content)).toBe(true);
    await writeFile(sandbox, "/tmp/empty", "");
    expect(await readFile(sandbox, "/tmp/empty")).toEqual({ kind: "file", content: Buffer.alloc(0) });
  });

  test("keeps the mode of a file, follows a link, and makes the folders above", async () => {
    await inside("mkdir /tmp/w; echo old >/tmp/w/script; chmod 751 /tmp/w/script; ln -s script /tmp/w/link");
    await writeFile(sandbox, "/tmp/w/link", "new");
    expect(
      await inside("cat /tmp/w/script; stat -c ' %a' /tmp/w/script; test -L /tmp/w/link && echo link"),
    ).toBe("new 751\nlink\n");
    await writeFile(sandbox, "/tmp/w/a/b/c", "deep");
    expect(await inside("cat /tmp/w/a/b/c; ls -A /tmp/w/a/b")).toBe("deepc\n");
  });

  test("replaces a file in one step", async () => {
    await inside("echo old >/tmp/step; exec 9</tmp/step");
    const before = await inside("stat -c %i /tmp/step");
    await writeFile(sandbox, "/tmp/step", "new");
    expect(await inside("stat -c %i /tmp/step")).not.toBe(before);
  });

  test("leaves the old content when the writer dies in the middle", async () => {
    await writeFile(sandbox, "/tmp/half", "complete");
    const result = await run(
      driver,
      "files",
      { argv: [...sandbox.shell!, "-c", writeScript, "sh", "/tmp/half", "100", "word", "all"] },
      { input: "only a part" },
    );
    expect(result.code).not.toBe(0);
    expect(await inside("cat /tmp/half; ls -A /tmp | grep write")).toBe("complete");
  });

  test("asks to try again when the stop of the sandbox ended the script", async () => {
    await expect(runScript(sandbox, "kill -TERM $$", [])).rejects.toThrow("it may be stopping");
  });

  test("leaves nothing of an upload when the server dies in the middle", async () => {
    await inside("mkdir -p /tmp/orphans");
    // The script's output is not read, as after a kill of the server.
    await run(driver, "files", {
      argv: [
        "sh",
        "-c",
        'printf part | "$@" 2>&1 | true',
        "sh",
        ...sandbox.shell!,
        "-c",
        writeScript,
        "sh",
        "/tmp/orphans/file",
        "100",
        "word",
        "all",
      ],
    });
    expect(await inside("ls -A /tmp/orphans")).toBe("");
  });

  test("refuses to write a directory, a read-only file and files of other users", async () => {
    await inside("mkdir -p /tmp/dir; echo x >/tmp/readonly; chmod 444 /tmp/readonly");
    await expect(writeFile(sandbox, "/tmp/dir", "x")).rejects.toMatchObject({
      code: "InvalidParameter",
      message: /is a directory/,
    });
    for (const path of ["/tmp/readonly", "/etc/passwd", "/usr/bin/new", "/root/x", "/tmp/readonly/below"]) {
      await expect(writeFile(sandbox, path, "x"), path).rejects.toMatchObject({
        code: "InvalidParameter",
        message: /denied|read-only|directory/i,
      });
    }
  });

  test("stays inside whatever links a sandbox plants", async () => {
    await inside("ln -s / /tmp/out; ln -s /proc/1/root /tmp/init; ln -s ../../../../../../.. /tmp/up");
    for (const path of ["/tmp/out", "/tmp/up", "/tmp/init"]) {
      expect(["missing", "unreadable"]).toContain(
        (await readFile(sandbox, `${path}${process.cwd()}/package.json`)).kind,
      );
      const passwd = await readFile(sandbox, `${path}/etc/passwd`);
      if (passwd.kind === "file") expect(passwd.content.toString()).toContain("agent:x:1000");
    }
  });

  test("lists a folder two levels deep, and counts hidden entries", async () => {
    await inside(`mkdir -p '/tmp/l/a b/c/too deep' /tmp/l/.git/x /tmp/l/d/.hidden; touch /tmp/l/.env /tmp/l/-f "/tmp/l/new
line" /tmp/l/d/.h; ln -s d /tmp/l/link; ln -s nowhere /tmp/l/broken`);
    expect(await list(sandbox, "/tmp/l")).toEqual({
      entries: [
        { path: "-f", directory: false },
        { path: "a b", directory: true },
        { path: "a b/c", directory: true },
        { path: "broken", directory: false },
        { path: "d", directory: true },
        { path: "link", directory: true },
        { path: "new\nline", directory: false },
      ],
      hidden: 2,
      truncated: false,
    });
    expect(await list(sandbox, "/tmp/none")).toBeUndefined();
    expect(await list(sandbox, "/tmp/l/-f")).toBeUndefined();
    await expect(list(sandbox, "/root")).rejects.toMatchObject({ code: "InvalidParameter" });
  });

  test("packs a folder and unpacks it again, with odd names, modes and links", async () => {
    await inside(`mkdir -p '/tmp/p/sub dir' /tmp/p/node_modules/x /tmp/p/.git; printf data >'/tmp/p/sub dir/new
line'; printf '#!' >/tmp/p/run; chmod 755 /tmp/p/run; ln -s ../../etc/passwd /tmp/p/link; touch /tmp/p/-x /tmp/p/.git/HEAD; head -c 3000000 /dev/urandom >/tmp/p/big`);
    const tar = await packArchive(sandbox, "/tmp/p", { excludes: ["node_modules"] });
    await unpackArchive(sandbox, "/tmp/q/new folder", tar);
    expect(
      await inside(
        "diff -r --no-dereference --exclude node_modules /tmp/p '/tmp/q/new folder' && echo same; ls -A '/tmp/q/new folder'; stat -c %a '/tmp/q/new folder/run'",
      ),
    ).toBe("same\n-x\n.git\nbig\nlink\nrun\nsub dir\n755\n");
  });

  test("packs with a tar that cannot exclude", async () => {
    await inside(
      "mkdir -p /tmp/b/d/node_modules /tmp/b/.git /tmp/bb; ln -s /run/sandpiper/busybox /tmp/bb/tar; touch /tmp/b/a /tmp/b/d/b /tmp/b/d/node_modules/x /tmp/b/d/c; tar --help | grep -c exclude",
    );
    const small: typeof sandbox = {
      shell: sandbox.shell,
      exec: (command) =>
        sandbox.exec({
          ...command,
          argv: command.argv.map((word) => word.replace("in /bin/tar", "in /tmp/bb/tar")),
        }),
    };
    for (const gzip of [false, true]) {
      const options = { excludes: ["node_modules", ".git", "./d/c"], gzip };
      const packed = await buffer(await packArchive(small, "/tmp/b", options));
      const tar = gzip ? gunzipSync(packed) : packed;
      expect(
        execFileSync("tar", ["-t"], { input: tar, encoding: "utf8" }).split("\n").sort().join(" ").trim(),
      ).toBe("./ ./a ./d/ ./d/b");
    }
    await inside("rm -r /tmp/b /tmp/bb");
  });

  test("compresses on request, and leaves out the holes of files", async () => {
    await inside("mkdir -p /tmp/z; truncate -s 100M /tmp/z/holes; echo end >>/tmp/z/holes");
    const packed = await buffer(await packArchive(sandbox, "/tmp/z", { gzip: true }));
    expect(packed.subarray(0, 2).toString("hex")).toBe("1f8b");
    expect(packed.length).toBeLessThan(1_000_000);
    await unpackArchive(sandbox, "/tmp/z1", Readable.from([packed]), { gzip: true });
    expect(await inside("cmp /tmp/z/holes /tmp/z1/holes && echo same")).toBe("same\n");
    const sparse = await buffer(await packArchive(sandbox, "/tmp/z", { sparse: true }));
    expect(sparse.length).toBeLessThan(100_000);
    await unpackArchive(sandbox, "/tmp/z2", Readable.from([sparse]));
    expect(
      await inside("cmp /tmp/z/holes /tmp/z2/holes && du -m /tmp/z2/holes; rm -r /tmp/z /tmp/z1 /tmp/z2"),
    ).toMatch(/^[01]\t/);
  });

  test("unpacks an archive with escaping paths only inside the sandbox", async () => {
    const script = `import io, sys, tarfile
out = tarfile.open(fileobj=sys.stdout.buffer, mode="w|")
for name, link in (("../../../../../../../../tmp/escaped", None), ("/tmp/absolute", None), ("l", "/etc"), ("l/x", None)):
  info = tarfile.TarInfo(name)
  if link: info.type = tarfile.SYMTYPE; info.linkname = link; out.addfile(info)
  else: info.size = 1; out.addfile(info, io.BytesIO(b"x"))
out.close()`;
    const evil = execFileSync("/usr/bin/python3", ["-c", script]);
    await expect(unpackArchive(sandbox, "/tmp/evil", Readable.from([evil]))).rejects.toMatchObject({
      code: "InvalidParameter",
    });
    const { existsSync } = await import("node:fs");
    expect([existsSync("/tmp/escaped"), existsSync("/tmp/absolute"), existsSync("/etc/x")]).toEqual([
      false,
      false,
      false,
    ]);
  });

  test("reports why an archive cannot be packed or unpacked", async () => {
    await expect(
      unpackArchive(sandbox, "/tmp/bad", Readable.from([Buffer.from("this is no archive".repeat(100))])),
    ).rejects.toMatchObject({
      code: "InvalidParameter",
    });
    await expect(
      unpackArchive(sandbox, "/usr/new", Readable.from([Buffer.alloc(1024)])),
    ).rejects.toMatchObject({
      message: /read-only|denied/i,
    });
    await expect(packArchive(sandbox, "/tmp/none").then((tar) => buffer(tar))).rejects.toMatchObject({
      code: "InvalidParameter",
    });
    const failing = new Readable({
      read() {
        this.destroy(new Error("the source broke"));
      },
    });
    await expect(unpackArchive(sandbox, "/tmp/broken", failing)).rejects.toThrow("the source broke");
  });

  test("reads an archive only as fast as its reader, and ends tar when the reader stops", async () => {
    await inside("head -c 200m /dev/zero >/tmp/huge");
    const tar = await packArchive(sandbox, "/tmp", { excludes: ["l"] });
    let read = 0;
    for await (const chunk of tar) {
      read += chunk.length;
      if (read > 100_000) break;
    }
    expect(tar.destroyed).toBe(true);
    await expect.poll(() => inside("pgrep -c tar")).toBe("0\n");
    await inside("rm /tmp/huge");
  });
});
