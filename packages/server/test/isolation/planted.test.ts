import { copyFileSync, cpSync, lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import type { Json } from "../support/platform.ts";
import { specs, useArena } from "./arena.ts";

/** Links at paths of a root that the server, the runtime or mounts touch at a start. */

const places = [
  "dev",
  "dev/pts",
  "dev/shm",
  "proc",
  "proc/sys",
  "sys",
  "etc",
  "etc/hosts",
  "etc/hostname",
  "etc/resolv.conf",
  "run",
  "run/sandpiper",
  "run/init",
  "tmp",
  "workspace",
  "workspace/project",
  "home",
];

const kinds = ["absolute", "climbing", "met"] as const;

/** Somewhere on the host, with everything that a start might want to touch there. */
let outside: string;

/**
 * Makes a root of one static program with a link at `place`. A `climbing` link is relative; the
 * target of a `met` link also exists inside.
 */
function plant(folder: string, place: string, kind: "absolute" | "climbing" | "met"): Json {
  const name = `${place.replaceAll("/", "-")}-${kind}`;
  const root = join(folder, name);
  mkdirSync(join(root, "bin"), { recursive: true });
  copyFileSync("/usr/bin/busybox", join(root, "bin/busybox"));
  for (const tool of ["sh", "cat", "echo", "stty"]) symlinkSync("busybox", join(root, "bin", tool));
  if (kind === "met" && !outside.startsWith(`/${place}/`))
    cpSync(outside, join(root, outside), { recursive: true });
  mkdirSync(join(root, dirname(place)), { recursive: true });
  symlinkSync(`${kind === "climbing" ? "../".repeat(30) : "/"}${outside.slice(1)}`, join(root, place));
  return { id: name, folder: root, user: "0", limits: { memory: "64M", pids: 64, cpus: 1, disk: "64M" } };
}

let planted: Json[] = [];
const arena = useArena((folder) => {
  outside = join(folder, "outside");
  for (const name of ["pts", "shm", "sys", "sandpiper", "project", "init"])
    mkdirSync(join(outside, name), { recursive: true });
  for (const name of ["pts/0", "hosts", "hostname", "resolv.conf"])
    writeFileSync(join(outside, name), "of the host");
  planted = places.flatMap((place) => kinds.map((kind) => plant(folder, place, kind)));
  return { specs: [...specs, ...planted] };
});

/** Owner, mode, time and content of everything outside. */
function outsideNow(): string {
  const names = ["", ...(readdirSync(outside, { recursive: true }) as string[]).sort()];
  return names
    .map((name) => {
      const { uid, gid, mode, ctimeMs, size } = lstatSync(join(outside, name));
      return [name, uid, gid, mode, ctimeMs, size].join(" ");
    })
    .join("\n");
}

test("in a root lead nowhere, or stop the start with a readable error", async () => {
  const before = outsideNow();
  let running = 0;
  for (const { id } of planted) {
    try {
      const place = await arena.place(`?sandbox_spec_id=${id}`);
      await place.run("echo x >/etc/resolv.conf; echo x >/tmp/planted; echo x >/workspace/project/planted");
      // The server makes the user the owner of a terminal.
      await place.run(["sh", "-c", "echo x >/dev/tty"], { tty: { cols: 80, rows: 24 } });
      expect((await place.file("PUT", "/tmp/planted", "x")).status).toBeLessThan(500);
      running++;
    } catch (error) {
      expect((error as Error).message).toMatch(/^(crun|runc|The sandbox) could not .*\.$/);
    }
  }
  expect(running).toBeGreaterThan(places.length);
  expect(outsideNow()).toBe(before);
});

test("by the root of a sandbox count for nothing when it is started again, forked and removed", async () => {
  const before = outsideNow();
  const place = await arena.place("?sandbox_spec_id=root");
  const names = ["etc", "run", "tmp", "workspace", "home", "var", "bin", "opt", "mnt"];
  const plant = `cd /; for n in ${names.join(" ")}; do /usr/bin/mv $n moved-$n; /usr/bin/ln -s ${outside} $n; done; /usr/bin/ls -l`;
  expect((await place.run(["/usr/bin/bash", "-c", plant])).out.match(/->/g)!.length).toBeGreaterThanOrEqual(
    names.length,
  );
  const snapshot = await arena.server.call("POST", `/api/v1/sandboxes/${place.id}/snapshots`);
  const fork = await arena.place(`?snapshot_id=${snapshot.body.id}`);
  for (const one of [place, fork]) {
    await one.run(["/usr/bin/bash", "-c", "echo x >/etc/resolv.conf; echo x >/tmp/planted"]);
    expect((await one.route("DELETE", "")).status).toBe(200);
  }
  expect(outsideNow()).toBe(before);
});
