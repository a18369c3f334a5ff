import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { Header, type HeaderData } from "tar";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { HostileRegistry } from "../../../../test/support/hostile-registry.ts";
import { Registries } from "../../../specs/registries.ts";
import { ImageStore } from "./image-store.ts";

/** Images of a hostile registry that would fill the disk or take for ever. */

const mebibyte = 2 ** 20;
const limits = { bytes: 64 * mebibyte, files: 10_000, depth: 200 };
let registry: HostileRegistry;
let dir: string;
let store: ImageStore;

beforeAll(async () => {
  registry = await new HostileRegistry().listen();
});
afterAll(() => registry.close());
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "sandpiper-bomb-"));
  const registries = new Registries({ allowed: [registry.host] });
  store = new ImageStore({ dir, idBase: 0x1000_0000, limits, registries, stallTimeoutMs: 4_000 });
  await store.open();
});
afterEach(async () => {
  await store.close();
  execFileSync("rm", ["-rf", dir]);
});

function header(data: HeaderData): Buffer {
  const block = Buffer.alloc(512);
  const entry = { mode: 0o644, uid: 0, gid: 0, mtime: new Date(0), type: "File" as const, size: 0, ...data };
  if (new Header(entry).encode(block, 0)) throw new Error("needs a PAX header");
  return block;
}

const end = gzipSync(Buffer.alloc(1024));

/** The members of a gzip file are one stream, so a small file can hold a large one. */
function layer(...members: Buffer[]): { digest: string; size: number } {
  return registry.blob(Buffer.concat([...members, end]));
}

function repeated(content: Buffer, count: number): Buffer {
  return Buffer.concat(Array.from<Buffer>({ length: count }).fill(gzipSync(content)));
}

/** Extended header for the next entry. */
function pax(records: Record<string, string>): Buffer {
  const body = Object.entries(records)
    .map(([key, value]) => {
      const rest = ` ${key}=${value}\n`;
      let length = rest.length + 1;
      while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
      return `${length}${rest}`;
    })
    .join("");
  const padded = Buffer.alloc(Math.ceil(body.length / 512) * 512);
  padded.write(body, "latin1");
  return Buffer.concat([header({ path: "PaxHeader", type: "ExtendedHeader", size: body.length }), padded]);
}

/** A file of 8 GB that is one hole, in the old form of GNU tar. */
function sparse(): Buffer {
  const block = header({ path: "hole" });
  block.write("S", 156, "latin1");
  block.write("ustar  \0", 257, "latin1");
  block.fill(0, 345, 512);
  block.write("77777777777\0", 386, "latin1");
  block.write("00000000000\0", 398, "latin1");
  block.write("77777777777\0", 483, "latin1");
  block.fill(32, 148, 156);
  const sum = block.reduce((all, byte) => all + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}

const tooLarge = /^The image \S+ unpacks to more than the 64\.0 MB that this server takes: .*\.$/;
const tooMany = /^The image \S+ has more than 10000 files and folders: .*\.$/;
const zeros = 16 * mebibyte;

const bombs: [name: string, layers: () => { digest: string; size: number }[], sentence: RegExp][] = [
  [
    "2 GB of zeros in 2 MB",
    () => [layer(gzipSync(header({ path: "zeros", size: 128 * zeros })), repeated(Buffer.alloc(zeros), 128))],
    tooLarge,
  ],
  [
    "many layers that are too large only together",
    () =>
      Array.from({ length: 6 }, (_, n) =>
        layer(gzipSync(header({ path: `f${n}`, size: zeros })), repeated(Buffer.alloc(zeros), 1)),
      ),
    tooLarge,
  ],
  ["a hole of 8 GB", () => [layer(gzipSync(sparse()))], tooLarge],
  [
    "a hole of 8 GB in an extended header",
    () => [
      layer(
        gzipSync(
          Buffer.concat([
            pax({ "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "8589934592" }),
            header({ path: "hole" }),
          ]),
        ),
      ),
    ],
    tooLarge,
  ],
  [
    "a size in an extended header",
    () => [layer(gzipSync(Buffer.concat([pax({ size: String(2 ** 40) }), header({ path: "large" })])))],
    tooLarge,
  ],
  [
    "2 GB after the end of the archive",
    () => [layer(gzipSync(Buffer.alloc(1024)), repeated(Buffer.alloc(zeros), 128))],
    /^.* a layer goes on after its end\.$/,
  ],
  [
    "a million entries",
    () => [
      layer(
        repeated(Buffer.concat(Array.from({ length: 1_000 }, (_, n) => header({ path: `d/f${n}` }))), 1_000),
      ),
    ],
    tooMany,
  ],
  [
    "the same path again and again",
    () => [layer(repeated(Buffer.concat(Array.from({ length: 100 }, () => header({ path: "f" }))), 200))],
    tooMany,
  ],
  [
    "a path of 300 names",
    () => [layer(gzipSync(Buffer.concat([pax({ path: "d/".repeat(300) }), header({ path: "d" })])))],
    /^The image \S+ has a path of more than 200 names: choose another one\.$/,
  ],
  [
    "an extended header of 1 GB",
    () => [layer(gzipSync(header({ path: "PaxHeader", type: "ExtendedHeader", size: 2 ** 30 })))],
    /^.* a layer has a header of more than 1 MB\.$/,
  ],
];

/** One sentence, and nothing on the disk. */
async function refuses(reference: string, sentence: RegExp): Promise<void> {
  const error: unknown = await store.prepare(reference).then(
    () => new Error("The image was accepted."),
    (reason: unknown) => reason,
  );
  expect(error).toMatchObject({ code: "SandboxSpecUnusable", message: expect.stringMatching(sentence) });
  const left = [...readdirSync(join(dir, "tmp")), ...readdirSync(join(dir, "roots"))];
  expect(left).toEqual([]);
  expect(Number(execFileSync("du", ["-sk", dir], { encoding: "utf8" }).split("\t")[0])).toBeLessThan(4_096);
}

test.each(bombs)("%s is refused with one sentence, and nothing is left", async (name, layers, sentence) => {
  await refuses(registry.image(name.replaceAll(/\W+/g, "-"), layers()), sentence);
});

test("an image within the limits is unpacked", async () => {
  const content = Buffer.alloc(512, "x");
  const files = Buffer.concat(
    Array.from({ length: 50 }, (_, n) => [header({ path: `d/f${n}`, size: 512 }), content]).flat(),
  );
  const whole = Buffer.concat([files, Buffer.alloc(1024)]);
  const fine = { ...layer(gzipSync(files)), content: whole };
  const image = await store.prepare(registry.image("fine", [fine]));
  expect(readdirSync(join(store.layerPath(image.reference), "d"))).toHaveLength(50);
});

const announced = Buffer.alloc(mebibyte, "announced");

test("a layer without an end is refused", async () => {
  const chunk = randomBytes(mebibyte);
  const endless = registry.blob(announced, (response) => {
    response.writeHead(200, { "content-type": "application/octet-stream" });
    const more = () => {
      while (!response.destroyed && response.write(chunk));
    };
    response.on("drain", more);
    more();
  });
  await refuses(
    registry.image("endless", [endless]),
    /^\S+ is not an image that can be used here: its registry sends more than it announced\.$/,
  );
});

test("a layer that drips is given up", async () => {
  const dripping = registry.blob(announced, (response) => {
    response.writeHead(200, { "content-length": announced.length });
    const timer = setInterval(() => response.write("x"), 500);
    response.on("close", () => clearInterval(timer));
  });
  await refuses(
    registry.image("dripping", [dripping]),
    /^The download of \S+ made no progress for 4 s: .*\.$/,
  );
});

test("a layer that announces more than any image may have is not fetched", async () => {
  let asked = 0;
  const blob = registry.blob(Buffer.from("small"), (response) => {
    asked++;
    response.end("small");
  });
  await refuses(registry.image("announced", [{ ...blob, size: 2 ** 40 }]), /./);
  expect(asked).toBe(0);
});

test("layers with a wrong digest or length are refused", async () => {
  const files = Buffer.concat([gzipSync(header({ path: "f" })), end]);
  const other = registry.blob(files, Buffer.concat([gzipSync(header({ path: "other" })), end]));
  await refuses(registry.image("digest", [other]), /a part of it is not what its manifest names\.$/);
  const cut = registry.blob(Buffer.concat([files, files]), (response) => {
    response.writeHead(200, { "content-length": files.length * 2 });
    response.write(files);
    response.destroy();
  });
  await refuses(registry.image("cut", [cut]), /^.*\.$/);
});

test("a manifest of 20 MB and an index within an index are refused", async () => {
  const type = "application/vnd.oci.image.index.v1+json";
  registry.manifest(
    "huge",
    Buffer.from(JSON.stringify({ schemaVersion: 2, note: "x".repeat(20 * mebibyte) })),
  );
  await refuses(registry.reference("huge"), /^.*\.$/);
  const index = (digest: string, mediaType: string) => ({
    schemaVersion: 2,
    mediaType: type,
    manifests: ["amd64", "arm64"].map((architecture) => ({
      ...{ mediaType, digest, size: 100 },
      platform: { os: "linux", architecture },
    })),
  });
  const inner = registry.manifest("inner", index(`sha256:${"1".repeat(64)}`, type), type);
  registry.manifest("outer", index(inner, type), type);
  await refuses(registry.reference("outer"), /^.*\.$/);
});
