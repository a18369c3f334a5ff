import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeImage } from "../../../../test/support/image-registry.ts";
import type { SandboxSpec } from "../../../driver.ts";
import { makeFifo } from "../../../kernel/files.ts";
import { createHostSpec } from "../../../specs/specs.ts";
import { findUser } from "../../common/images/find-user.ts";
import { ImageStore } from "./image-store.ts";
import { prepareSpec } from "./prepare-spec.ts";

const base: SandboxSpec = {
  ...createHostSpec({ memoryBytes: 1, pids: 1, cpus: 1, diskBytes: 1 }),
  id: "x",
  user: null,
};
let dir: string;
let root: string;
let dataDir: string;
let images: ImageStore;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "sandpiper-prepare-"));
  root = join(dir, "root");
  dataDir = join(dir, "data");
  mkdirSync(join(root, "etc"), { recursive: true });
  images = new ImageStore({ dir: join(dataDir, "images"), idBase: 0x1000_0000 });
  await images.open();
});
afterEach(async () => {
  await images.close();
  rmSync(dir, { recursive: true, force: true });
});

const passwd =
  "root:x:0:0:root:/root:/bin/sh\napp:x:7:8::/srv/app:/bin/sh\nhomeless:x:9:9\nbig:x:70000:1::/:\n";
const group = "root:x:0:\nstaff:x:50:app\n";

function writeUsers(): void {
  writeFileSync(join(root, "etc/passwd"), passwd);
  writeFileSync(join(root, "etc/group"), group);
}

test.each([
  ["", { name: "root", uid: 0, gid: 0, home: "/root" }],
  ["app", { name: "app", uid: 7, gid: 8, home: "/srv/app" }],
  ["7", { name: "app", uid: 7, gid: 8, home: "/srv/app" }],
  ["app:staff", { name: "app", uid: 7, gid: 50, home: "/srv/app" }],
  ["app:3", { name: "app", uid: 7, gid: 3, home: "/srv/app" }],
  ["1234", { name: "user", uid: 1234, gid: 0, home: "/home/user" }],
  ["1234:5678", { name: "user", uid: 1234, gid: 5678, home: "/home/user" }],
  ["homeless", { name: "homeless", uid: 9, gid: 9, home: "/home/user" }],
])("the user %j is looked up in the root", (text, user) => {
  writeUsers();
  expect(findUser(root, text, "it")).toEqual(user);
});

test.each([
  "nobody-here",
  "app:nogroup",
  "big",
  "65535",
  "1:65535",
  "99999999999",
  "app:",
  "a:b:c",
  ":staff",
  "a\nb",
  "-1",
])("the user %j is refused with a sentence", (text) => {
  writeUsers();
  expect(() => findUser(root, text, "it")).toThrow(expect.objectContaining({ code: "SandboxSpecUnusable" }));
});

test("the user look-up follows links only within the root and never blocks", () => {
  mkdirSync(join(root, "store"));
  writeFileSync(join(root, "store/passwd"), "inside:x:5:5::/x:/\n");
  symlinkSync("/store/passwd", join(root, "etc/passwd"));
  expect(findUser(root, "inside", "it").uid).toBe(5);

  const outside = join(dir, "outside");
  writeFileSync(outside, "outside:x:6:6::/x:/\n");
  for (const target of [
    outside,
    `${"../".repeat(30)}${outside.slice(1)}`,
    "/proc/self/root/etc/passwd",
    "/etc/passwd",
    "passwd",
  ]) {
    rmSync(join(root, "etc/passwd"));
    symlinkSync(target, join(root, "etc/passwd"));
    expect(() => findUser(root, "outside", "it")).toThrow(/no user/);
    expect(findUser(root, "", "it")).toEqual({ name: "root", uid: 0, gid: 0, home: "/root" });
  }
  rmSync(join(root, "etc/passwd"));
  makeFifo(join(root, "etc/passwd"), 0o600);
  expect(() => findUser(root, "outside", "it")).toThrow(/no user/);
  rmSync(join(root, "etc/passwd"));
  writeFileSync(join(root, "etc/passwd"), Buffer.alloc(3_000_000, "outside:x:6:6::/x:/\n"));
  expect(() => findUser(root, "outside", "it")).toThrow(/no user/);
});

test("an image is pinned; the spec's environment overrides the image's, and its user is found", async () => {
  const layout = join(dir, "layout");
  makeImage(layout, { layers: [{ "etc/passwd": passwd }], env: ["A=image", "B=image"], user: "app" });
  const reference = `oci:${layout}:image`;
  const spec: SandboxSpec = { ...base, root: { kind: "image", reference }, env: { A: "spec" } };
  const prepared = await prepareSpec(spec, { images, dataDir });
  expect(prepared).toMatchObject({
    root: { kind: "image", reference: expect.stringMatching(/@sha256:[0-9a-f]{64}$/) },
    env: { A: "spec", B: "image" },
    user: { name: "app", uid: 7, gid: 8, home: "/srv/app" },
    workingDir: "/workspace/project",
  });
  // A prepared image no longer needs its source.
  rmSync(layout, { recursive: true });
  expect(await prepareSpec(prepared, { images, dataDir })).toEqual(prepared);
  expect((await prepareSpec({ ...prepared, user: "0" }, { images, dataDir })).user.home).toBe("/root");
  await expect(prepareSpec({ ...prepared, user: "eve" }, { images, dataDir })).rejects.toThrow(
    `There is no user "eve" in /etc/passwd of the image ${reference}.`,
  );
});

test("a folder is used by its real path and has its own users", async () => {
  writeUsers();
  const linked = join(dir, "link");
  symlinkSync(root, linked);
  const spec: SandboxSpec = { ...base, root: { kind: "folder", path: linked }, user: "app" };
  const prepared = await prepareSpec(spec, { images, dataDir });
  expect(prepared.root).toEqual({ kind: "folder", path: root });
  expect(prepared.user.uid).toBe(7);
});

test("folders without a root filesystem or with the server's data are refused", async () => {
  const refuse = async (path: string, sentence: RegExp) => {
    const spec: SandboxSpec = { ...base, root: { kind: "folder", path } };
    await expect(prepareSpec(spec, { images, dataDir })).rejects.toMatchObject({
      code: "SandboxSpecUnusable",
      message: expect.stringMatching(sentence),
    });
  };
  const empty = join(dir, "empty");
  mkdirSync(empty);
  writeFileSync(join(dir, "file"), "");
  await refuse("relative", /not an absolute path/);
  await refuse(join(dir, "missing"), /does not exist/);
  await refuse(join(dir, "file"), /is not a folder/);
  await refuse(join(dir, "file/below"), /does not exist/);
  await refuse(empty, /does not look like a root filesystem/);
  for (const path of ["/", dir, dataDir, `${root}/../data/..`])
    await refuse(path, /holds the server's own data/);
});

test("a host sandbox's user is created, not looked up", async () => {
  expect((await prepareSpec(base, { images, dataDir })).user.name).toBe("agent");
  expect((await prepareSpec({ ...base, user: "ann" }, { images, dataDir })).user).toMatchObject({
    name: "ann",
    uid: 1000,
  });
  expect(readFileSync("/etc/passwd", "utf8")).not.toContain("ann:");
});
