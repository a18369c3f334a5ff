import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  createWriteStream,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { createGzip } from "node:zlib";
import { Header, type HeaderData } from "tar";
import { afterEach, beforeEach, expect, test } from "vitest";
import { addLayer, makeImage } from "../../../../test/support/image-registry.ts";
import { ImageStore } from "./image-store.ts";

const idBase = 0x1000_0000;
let dir: string;
let store: ImageStore;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "sandpiper-hostile-"));
  store = new ImageStore({ dir: join(dir, "images"), idBase });
  await store.open();
});
afterEach(async () => {
  await store.close();
  execFileSync("rm", ["-rf", dir]);
});

type Entry = HeaderData & { content?: string; xattrs?: Record<string, string> };

/** An image of one layer with exactly these entries, which no tar program would write. */
function hostileImage(entries: Entry[]): string {
  const layout = join(dir, "layout");
  makeImage(layout, { layers: [] });
  addLayer(layout, writeTar(entries));
  return `oci:${layout}:image`;
}

function writeTar(entries: Entry[]): string {
  const blocks = entries.flatMap(({ content = "", xattrs, ...data }) => {
    const body = Buffer.from(content);
    const full = {
      mode: 0o644,
      uid: 0,
      gid: 0,
      mtime: new Date(0),
      type: "File" as const,
      size: body.length,
      ...data,
    };
    const padded = Buffer.alloc(Math.ceil(body.length / 512) * 512);
    body.copy(padded);
    return [...(xattrs ? [paxBlock(xattrs)] : []), headerBlock(full), padded];
  });
  const file = join(dir, "layer.tar");
  writeFileSync(file, Buffer.concat([...blocks, Buffer.alloc(1024)]));
  return file;
}

function headerBlock(data: HeaderData): Buffer {
  const block = Buffer.alloc(512);
  if (new Header(data).encode(block, 0)) throw new Error(`${data.path} needs a PAX header`);
  return block;
}

function paxBlock(records: Record<string, string>): Buffer {
  const body = Buffer.concat(
    Object.entries(records).map(([key, value]) => paxRecord(`SCHILY.xattr.${key}`, value)),
  );
  const padded = Buffer.alloc(Math.ceil(body.length / 512) * 512);
  body.copy(padded);
  const header = {
    path: "PaxHeader",
    type: "ExtendedHeader" as const,
    size: body.length,
    mode: 0o644,
    uid: 0,
    gid: 0,
    mtime: new Date(0),
  };
  return Buffer.concat([headerBlock(header), padded]);
}

/** `length key=value`, where the length counts its own digits. */
function paxRecord(key: string, value: string): Buffer {
  const rest = ` ${key}=${value}\n`;
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.from(`${length}${rest}`);
}

/** All paths near the image folder with their contents, to detect changes. */
function outside(): string[] {
  return execFileSync(
    "find",
    [dir, "-path", join(dir, "images"), "-prune", "-o", "-printf", "%p %s %m %T@\n"],
    {
      encoding: "utf8",
    },
  )
    .split("\n")
    .filter((line) => !/\/(layout|layer\.tar)/.test(line) && !line.startsWith(`${dir} `));
}

const ups = "../".repeat(20);
const escapes: [string, (victim: string) => Entry[]][] = [
  ["a path with ..", (victim) => [{ path: `${ups}${victim.slice(1)}/new`, content: "x" }]],
  ["an absolute path", (victim) => [{ path: `${victim}/new`, content: "x" }]],
  [
    "a link to outside, and a file behind it",
    (victim) => [link("out", victim), { path: "out/new", content: "x" }],
  ],
  [
    "a link with .., and a file behind it",
    (victim) => [link("out", ups + victim.slice(1)), { path: "out/new", content: "x" }],
  ],
  ["a root that is a link", (victim) => [link(".", victim), { path: "new", content: "x" }]],
  [
    "a chain of links",
    (victim) => [link("a", victim), link("b", "a"), { path: "b/file", content: "changed" }],
  ],
  ["a file over a link", (victim) => [link("f", `${victim}/file`), { path: "f", content: "changed" }]],
  ["a whiteout behind a link", (victim) => [link("out", victim), { path: "out/.wh.file" }]],
  ["an opaque folder behind a link", (victim) => [link("out", victim), { path: "out/.wh..wh..opq" }]],
  ["a whiteout of ..", () => [{ path: "d/.wh..." }, { path: ".wh..." }, { path: ".wh.." }, { path: ".wh." }]],
  [
    "permissions behind a link",
    (victim) => [link("out", victim), { path: "out", type: "Directory", mode: 0o777 }],
  ],
];

function link(path: string, linkpath: string): Entry {
  return { path, linkpath, type: "SymbolicLink" };
}

test.each(escapes)("%s writes and deletes nothing outside the root", async (_, entries) => {
  const victim = join(dir, "victim");
  mkdirSync(victim);
  writeFileSync(join(victim, "file"), "unchanged");
  const before = outside();
  expect(before.length).toBeGreaterThan(2);
  const reference = hostileImage([...entries(victim), { path: "last", content: "x" }]);
  await store
    .prepare(reference)
    .catch((error) => expect(error).toMatchObject({ code: "SandboxSpecUnusable" }));
  expect(outside()).toEqual(before);
  expect(readFileSync(join(victim, "file"), "utf8")).toBe("unchanged");
  expect(readdirSync(join(dir, "images")).sort()).toEqual(expect.arrayContaining(["blobs", "roots", "tmp"]));
  expect(readdirSync(join(dir, "images/tmp"))).toEqual([]);
});

test("a hard link to an outside file is refused or leads inside the root", async () => {
  const entry = { path: "passwd", linkpath: `${ups}etc/passwd`, type: "Link" as const };
  await expect(store.prepare(hostileImage([entry]))).rejects.toMatchObject({ code: "SandboxSpecUnusable" });
  expect(lstatSync("/etc/passwd").nlink).toBe(1);
});

test("device nodes and overlay marks are removed; setuid bits, capabilities and odd names stay", async () => {
  const capability = "\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
  const image = await store.prepare(
    hostileImage([
      { path: "dev/disk", type: "BlockDevice", devmaj: 8, devmin: 0, mode: 0o666 },
      { path: "usr/whiteout", type: "CharacterDevice", devmaj: 0, devmin: 0 },
      { path: "fifo", type: "FIFO" },
      { path: "su", content: "x", mode: 0o6755, uid: 5 },
      { path: "ping", content: "x", mode: 0o755, xattrs: { "security.capability": capability } },
      {
        path: "d",
        type: "Directory",
        mode: 0o755,
        xattrs: { "trusted.overlay.opaque": "y", "trusted.overlay.redirect": "/etc" },
      },
      { path: "new\nline", content: "x" },
    ]),
  );
  const root = store.layerPath(image.reference);
  expect(execFileSync("find", [root, "-type", "b", "-o", "-type", "c"], { encoding: "utf8" })).toBe("");
  expect(readdirSync(root).sort()).toEqual(["d", "dev", "fifo", "new\nline", "ping", "su", "usr"]);
  expect(lstatSync(join(root, "su"))).toMatchObject({ mode: 0o106755, uid: idBase + 5, gid: idBase });
  const script = "import os,sys\nfor p in sys.argv[1:]: print(os.listxattr(p))";
  const xattrs = execFileSync("/usr/bin/python3", ["-c", script, join(root, "ping"), join(root, "d")], {
    encoding: "utf8",
  });
  expect(xattrs).toBe("['security.capability']\n[]\n");
});

test("owners beyond the sandbox's ids are refused", async () => {
  await expect(store.prepare(hostileImage([{ path: "f", uid: 70_000 }]))).rejects.toThrow(
    /cannot be unpacked: .*70000/,
  );
});

test("invalid layers, manifests and configurations are refused with one sentence", async () => {
  const layout = join(dir, "layout");
  const json = (path: string) => JSON.parse(readFileSync(join(layout, path), "utf8"));
  const blob = (digest: string) => `blobs/${digest.replace(":", "/")}`;
  for (const part of ["manifest", "config", "layer"]) {
    makeImage(layout, { layers: [{ file: "x" }] });
    const { digest } = json("index.json").manifests[0];
    const manifest = json(blob(digest));
    const spoilt = { manifest: digest, config: manifest.config.digest, layer: manifest.layers[0].digest }[
      part
    ];
    writeFileSync(join(layout, blob(spoilt)), "garbage");
    await expect(store.prepare(`oci:${layout}:image`), part).rejects.toMatchObject({
      code: "SandboxSpecUnusable",
    });
  }
  expect(readdirSync(join(dir, "images/tmp"))).toEqual([]);
});

test("an image larger than the disk is refused, even with a false size, and leaves no files", async () => {
  const small = join(dir, "small");
  mkdirSync(small);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=48m", "tmpfs", small]);
  const images = new ImageStore({ dir: join(small, "images"), idBase });
  try {
    await images.open();
    const used = () => execFileSync("du", ["-s", "-B1M", small], { encoding: "utf8" }).split("\t")[0];
    // 500 MB of zeros, in half a MB of gzip.
    const bomb = await zerosImage(500_000_000);
    await expect(images.prepare(bomb)).rejects.toMatchObject({ code: "StorageFull", status: 507 });
    expect(readdirSync(join(small, "images/tmp"))).toEqual([]);
    expect(Number(used())).toBeLessThan(5);
    const honest = join(dir, "honest");
    makeImage(honest, {
      layers: [
        { random: Buffer.from(execFileSync("head", ["-c", "60000000", "/dev/urandom"], { maxBuffer: 1e8 })) },
      ],
    });
    await expect(images.prepare(`oci:${honest}:image`)).rejects.toMatchObject({ code: "StorageFull" });
    expect(Number(used())).toBeLessThan(5);
  } finally {
    await images.close();
    execFileSync("umount", [small]);
  }
});

/** An image with one file of zeros that declares a small size. */
async function zerosImage(size: number): Promise<string> {
  const header = headerBlock({
    path: "zeros",
    size,
    mode: 0o644,
    uid: 0,
    gid: 0,
    mtime: new Date(0),
    type: "File",
  });
  const chunk = Buffer.alloc(1_000_000);
  const parts = function* () {
    yield header;
    for (let left = size; left > 0; left -= chunk.length) yield chunk;
  };
  const file = join(dir, "zeros.gz");
  await pipeline(Readable.from(parts()), createGzip({ level: 1 }), createWriteStream(file));

  const layout = join(dir, "zeros");
  mkdirSync(join(layout, "blobs/sha256"), { recursive: true });
  const add = (content: Buffer | string, mediaType: string) => {
    const hex = createHash("sha256").update(content).digest("hex");
    writeFileSync(join(layout, "blobs/sha256", hex), content);
    return {
      mediaType: `application/vnd.oci.image.${mediaType}`,
      digest: `sha256:${hex}`,
      size: content.length,
    };
  };
  const layer = add(readFileSync(file), "layer.v1.tar+gzip");
  const rootfs = { type: "layers", diff_ids: [`sha256:${"0".repeat(64)}`] };
  const config = add(JSON.stringify({ os: "linux", rootfs, config: {} }), "config.v1+json");
  const manifest = add(JSON.stringify({ schemaVersion: 2, config, layers: [layer] }), "manifest.v1+json");
  const annotations = { "org.opencontainers.image.ref.name": "image" };
  writeFileSync(
    join(layout, "index.json"),
    JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }),
  );
  writeFileSync(join(layout, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  return `oci:${layout}:image`;
}

test("5,000 files are unpacked while this process stays responsive", async () => {
  const entries = Array.from({ length: 5_000 }, (_, n) => ({ path: `d${n % 100}/f${n}` }));
  const reference = hostileImage(entries);
  let worst = 0;
  let last = performance.now();
  const timer = setInterval(() => {
    worst = Math.max(worst, performance.now() - last - 10);
    last = performance.now();
  }, 10);
  const image = await store.prepare(reference);
  clearInterval(timer);
  expect(worst).toBeLessThan(5_000);
  expect(readdirSync(join(store.layerPath(image.reference), "d7"))).toHaveLength(50);
  await store.prune([], 0);
  expect(readdirSync(join(dir, "images/tmp"))).toEqual([]);
});

test.each(["asking", "unpacking"])(
  "after kill -9 while %s the next open leaves no incomplete files and no program",
  async (step) => {
    const layout = join(dir, "killed");
    makeImage(layout, {
      layers: [Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`f${n}`, "x"]))],
    });
    const images = join(dir, "images");
    const reference = `oci:${layout}:image`;
    const script = fileURLToPath(new URL("fixtures/prepare-image.ts", import.meta.url));
    const child = spawn(process.execPath, [script, images, reference], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(child, "exit");
    for await (const line of createInterface(child.stdout)) {
      if (!line.startsWith(step)) continue;
      while (step === "unpacking" && unpackedFiles(images) < 10)
        await new Promise((resolve) => setTimeout(resolve, 1));
      child.kill("SIGKILL");
    }
    expect(await ended).toEqual([null, "SIGKILL"]);
    expect(readdirSync(join(images, "roots"))).toEqual([]);

    await store.close();
    store = new ImageStore({ dir: images, idBase });
    await store.open();
    expect(readdirSync(join(images, "tmp"))).toEqual([]);
    // A killed program may still be ending on a busy machine.
    await expect.poll(() => programsOn(images)).toEqual([]);
    const image = await store.prepare(reference);
    expect(readdirSync(store.layerPath(image.reference))).toHaveLength(1_000);
  },
);

function unpackedFiles(images: string): number {
  const [draft] = readdirSync(join(images, "tmp"));
  const root = join(images, "tmp", draft!, "rootfs");
  return existsSync(root) ? readdirSync(root).length : 0;
}

/** Commands that use a folder. */
function programsOn(folder: string): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8");
      } catch {
        return "";
      }
    })
    .filter((command) => command.includes(folder));
}
