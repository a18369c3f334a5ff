import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { BlobStore } from "@sandpiper/core/blobs/blob-store";
import { openBlobStore } from "@sandpiper/core/blobs/open";
import { type S3Server, s3Program, startS3Server } from "@sandpiper/core/test/support/s3-server";
import { until } from "@sandpiper/core/test/support/until";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { KeptFiles } from "@sandpiper/sandbox/service/kept-files";
import type { SandboxService } from "@sandpiper/sandbox/service/service";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ServiceBench } from "../support/sandbox-service.ts";

const user = "ann";
const idle = { pauseAfterMs: 1_000, hibernateAfterMs: 1_000, deleteAfterMs: 0 };
const closing: (() => unknown)[] = [];

beforeEach(() => {
  closing.length = 0;
});
afterEach(async () => {
  for (const close of closing.reverse()) await close();
});

interface Place {
  open(): Promise<BlobStore>;
  kill(): Promise<void>;
  restart(): Promise<void>;
}

async function folderPlace(): Promise<Place> {
  const folder = mkdtempSync("/tmp/sandpiper-shared-");
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  return {
    open: () => openBlobStore({ kind: "folder", path: folder }),
    kill: async () => {},
    restart: async () => {},
  };
}

async function s3Place(): Promise<Place> {
  const server: S3Server = await startS3Server();
  closing.push(() => server.close());
  return { open: () => openBlobStore(server.place), kill: server.kill, restart: server.restart };
}

/** Servers of a "machine" each: a data folder of their own, with the store of another one. */
class Machine {
  readonly bench = new ServiceBench();
  readonly logged: { fields: Record<string, unknown>; text: string }[] = [];
  service!: SandboxService;
  blobs!: BlobStore;

  /** `from`: the machine whose store it goes on with. */
  async open(place: Place, options: { from?: Machine; userBytes?: number } = {}): Promise<this> {
    if (options.from) {
      await options.from.close();
      for (const name of ["store", "vault.key"])
        cpSync(join(options.from.bench.dir, name), join(this.bench.dir, name), { recursive: true });
    }
    await this.bench.open();
    this.blobs = await place.open();
    const note = (fields: object, text: string) => void this.logged.push({ fields: { ...fields }, text });
    const kept = new KeptFiles({
      driver: {
        get files() {
          return bench.driver.files;
        },
        prepare: (...given) => bench.driver.prepare(...given),
      },
      blobs: this.blobs,
      references: this.bench.store.blobs,
      folder: join(this.bench.dir, "restored"),
      limits: { userBytes: options.userBytes ?? 0, retryMs: 100 },
      logger: { info: note, warn: note },
    });
    const { bench } = this;
    this.service = await this.bench.serve({ idle, kept });
    closing.push(() => this.remove());
    return this;
  }

  #isOpen = true;
  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.service.close();
    await this.bench.store.close();
    this.blobs.close();
  }

  /** Removes the machine with all of its files. */
  async remove(): Promise<void> {
    await this.close();
    await this.bench.driver.open();
    for (const { id } of await this.bench.driver.list()) await this.bench.driver.remove(id);
    await this.bench.driver.close();
    rmSync(this.bench.dir, { recursive: true, force: true });
  }

  async run(id: string, script: string): Promise<string> {
    const sandbox = await this.service.running(id);
    const { stdout } = await runToEnd(sandbox, { argv: ["sh", "-c", script] }, { timeoutMs: 150_000 });
    return stdout.toString();
  }

  async create(snapshotId?: string): Promise<SandboxRow> {
    const row = await this.service.create(user, undefined, snapshotId === undefined ? {} : { snapshotId });
    await this.service.running(row.id);
    return row;
  }

  async hibernate(id: string): Promise<void> {
    await this.bench.pass(2_000);
    await this.bench.pass(2_000);
    expect(await this.bench.state(id)).toBe("stopped");
  }

  kept(id: string) {
    return until(() => this.bench.store.blobs.get(id));
  }
}

const write = `cd ~; echo text >plain; chmod 640 plain; ln plain hard; ln -s plain soft; truncate -s 20M hole; rm -f .profile`;
const look = "cd ~; find . -printf '%p %y %m %U:%G %s %n %l %T@\\n' | sort; cat hard";

const places = [
  { name: "a folder", make: folderPlace, isThere: true },
  { name: "an S3 server", make: s3Place, isThere: s3Program !== undefined },
];

describe.each(places.filter(({ isThere }) => isThere))("sandboxes that move through $name", ({ make }) => {
  test("a hibernated sandbox wakes on a machine that has never seen its files", async () => {
    const place = await make();
    const a = await new Machine().open(place);
    const { id } = await a.create();
    await a.run(id, write);
    const before = await a.run(id, look);
    await a.hibernate(id);
    await a.kept(id);
    const b = await new Machine().open(place, { from: a });
    await a.remove();
    const details: string[] = [];
    b.service.onChange((change) => {
      if ("statusDetail" in change && change.statusDetail !== null)
        details.push(`${change.status} ${change.statusDetail}`);
    });
    expect(await b.run(id, look)).toBe(before);
    expect(details[0]).toMatch(
      /^STARTING Restoring the files that were kept: .* of \d{4}-\d\d-\d\dT\d\d:\d\dZ\.$/,
    );
    expect(await b.service.get(user, id)).toMatchObject({ status: "RUNNING", statusDetail: null });
    expect(readdirSync(join(b.bench.dir, "restored"))).toEqual([]);

    await b.run(id, "echo more >~/more");
    const first = await b.kept(id);
    await b.hibernate(id);
    const second = await until(async () => {
      const kept = await b.bench.store.blobs.get(id);
      return kept?.digest === first.digest ? undefined : kept;
    });
    expect(await b.blobs.has(second)).toBe(true);
    await b.service.remove(user, id);
    expect(await b.bench.store.blobs.get(id)).toBeUndefined();
  });

  test("a sandbox begins with a snapshot of another machine", async () => {
    const place = await make();
    const a = await new Machine().open(place);
    const { id } = await a.create();
    await a.run(id, "echo kept >~/file");
    const snapshot = await a.service.snapshots.create(user, id);
    await a.kept(snapshot.id);
    const b = await new Machine().open(place, { from: a });
    await a.remove();
    const { id: other } = await b.create(snapshot.id);
    expect(await b.run(other, "cat ~/file")).toBe("kept\n");
  });

  test("a sandbox that is used again while it is copied wakes at once, and is copied after the next time", async () => {
    const place = await make();
    const a = await new Machine().open(place);
    const { id } = await a.create();
    await a.run(id, "head -c 150000000 /dev/urandom >~/large");
    await a.hibernate(id);
    expect(await a.run(id, "rm ~/large; echo here")).toBe("here\n");
    expect(await a.bench.store.blobs.get(id)).toBeUndefined();
    await a.hibernate(id);
    expect((await a.kept(id)).size).toBeLessThan(100_000);
  });
});

test("what was not copied before the server ended is copied by the next one", async () => {
  const place = await folderPlace();
  const a = await new Machine().open(place);
  const { id } = await a.create();
  await a.run(id, "head -c 50000000 /dev/urandom >~/large");
  await a.hibernate(id);
  await a.close();
  const b = new Machine();
  execFileSync("cp", ["-a", `${a.bench.dir}/.`, b.bench.dir]);
  await b.open(place);
  expect((await b.kept(id)).size).toBeGreaterThan(50_000_000);
});

test("a copy of more than the user may keep is not made, and the reason is logged", async () => {
  const place = await folderPlace();
  const a = await new Machine().open(place, { userBytes: 1_000_000 });
  const { id } = await a.create();
  await a.run(id, "head -c 5000000 /dev/urandom >~/large");
  await a.hibernate(id);
  await until(() => a.logged.find(({ text }) => text === "files could not be kept"));
  expect(a.logged.at(-1)!.fields.reason).toMatch(/more than SANDPIPER_USER_DISK/);
  expect((await a.blobs.list()).blobs).toEqual([]);
  expect(await a.run(id, "ls ~")).toBe("large\n");
});

test.skipIf(s3Program === undefined)(
  "without its S3 server a sandbox of another machine stays hibernated, and wakes when it is back",
  async () => {
    const place = await s3Place();
    const a = await new Machine().open(place);
    const { id } = await a.create();
    await a.run(id, "echo kept >~/file");
    await place.kill();
    await a.hibernate(id);
    await until(() => a.logged.find(({ text }) => text === "files could not be kept"));
    await place.restart();
    await a.kept(id);
    const b = await new Machine().open(place, { from: a });
    await a.remove();
    await place.kill();
    await expect(b.service.running(id)).rejects.toMatchObject({ code: "BlobsUnavailable" });
    expect(await b.service.get(user, id)).toMatchObject({ status: "PAUSED", statusDetail: null });
    await place.restart();
    expect(await b.run(id, "cat ~/file")).toBe("kept\n");
  },
);
