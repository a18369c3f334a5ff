import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import type { BlobInfo, BlobStore } from "@sandpiper/core/blobs/blob-store";
import { BlobCollector } from "@sandpiper/core/blobs/collector";
import { openBlobStore } from "@sandpiper/core/blobs/open";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Store } from "../../src/store/store.ts";
import type { StoreEngine } from "./engine.ts";

export function describeBlobReferences({ name, createTestStore }: StoreEngine): void {
  describe(`blob references on ${name}`, () => {
    let store: Store & Required<Pick<Store, "blobs">>;
    let close: () => Promise<void>;
    beforeEach(async () => {
      const opened = await createTestStore();
      store = opened.store as typeof store;
      close = opened.close;
    });
    afterEach(() => close());

    const later = () => Date.now() + 60_000;
    const claim = (change = {}) =>
      store.blobs.claimUnused({ unusedBefore: later(), claimedBefore: 0, limit: 100, ...change });
    const blob = (name: string, size = 10): BlobInfo => ({
      digest: createHash("sha256").update(name).digest("hex"),
      size,
    });

    async function addSandbox(id: string, userId = "ann"): Promise<{ id: string; userId: string }> {
      await store.sandboxes.create({
        ...{ id, userId, specId: "host", status: "PAUSED", statusDetail: null, incarnation: "1" },
        ...{ sessionKey: id, createdAt: 1, spec: null, prepared: true, snapshotId: null, lastUsedAt: 1 },
      });
      return { id, userId };
    }

    test("a holder keeps one blob, and a new one takes its place", async () => {
      const holder = await addSandbox("s1");
      expect(await store.blobs.get("s1")).toBeUndefined();
      expect(await store.blobs.keep(holder, blob("a"))).toBe(true);
      expect(await store.blobs.get("s1")).toEqual({ ...blob("a"), keptAt: expect.any(Number) });
      expect(await claim()).toEqual([]);
      expect(await store.blobs.keep(holder, blob("b"))).toBe(true);
      expect(await store.blobs.get("s1")).toMatchObject(blob("b"));
      expect(await claim()).toEqual([blob("a")]);
    });

    test("a blob of two holders is unused when the last one is deleted, and counts once for their user", async () => {
      const [one, two] = [await addSandbox("s1"), await addSandbox("s2")];
      const other = await addSandbox("s3", "bob");
      for (const holder of [one, two, other]) await store.blobs.keep(holder, blob("shared", 100));
      await store.blobs.keep(two, blob("own", 7));
      expect(await store.blobs.userBytes("ann")).toBe(107);
      expect(await store.blobs.userBytes("bob")).toBe(100);
      expect(await store.blobs.userBytes("nobody")).toBe(0);
      await store.sandboxes.remove("s1");
      await store.blobs.release("s3");
      expect(await claim()).toEqual([blob("shared", 100)]);
      expect(await store.blobs.userBytes("ann")).toBe(7);
    });

    test("the deletion of a snapshot releases its blob", async () => {
      await store.snapshots.create({ id: "snap-1", userId: "ann", sandboxId: "s", spec: {}, createdAt: 1 });
      expect(await store.blobs.keep({ id: "snap-1", userId: "ann" }, blob("a"))).toBe(true);
      await store.snapshots.remove("snap-1");
      expect(await claim()).toEqual([blob("a")]);
    });

    test("a claimed blob cannot be kept until its record is gone, and a holder that is gone keeps nothing", async () => {
      const holder = await addSandbox("s1");
      await store.blobs.keep(holder, blob("old"));
      await store.blobs.release("s1");
      expect(await claim()).toHaveLength(1);
      expect(await store.blobs.keep(holder, blob("old"))).toBe(false);
      expect(await store.blobs.get("s1")).toBeUndefined();
      await store.blobs.forget(blob("old").digest);
      expect(await store.blobs.keep(holder, blob("old"))).toBe(true);
      await store.blobs.forget(blob("old").digest);
      expect(await store.blobs.get("s1")).toMatchObject(blob("old"));

      expect(await store.blobs.keep({ id: "gone", userId: "ann" }, blob("lost"))).toBe(false);
      expect(await claim()).toEqual([blob("lost")]);
    });

    test("only one of two servers gets a blob, until the claim of the first is old", async () => {
      await store.blobs.keep({ id: "gone", userId: "ann" }, blob("a"));
      const claims = await Promise.all([claim(), claim()]);
      expect(claims.map(({ length }) => length).sort()).toEqual([0, 1]);
      expect(await claim({ claimedBefore: later() })).toEqual([blob("a")]);
      const unknown = { ...blob("b"), storedAt: 1 };
      const both = [store.blobs.claimUnknown([unknown]), store.blobs.claimUnknown([unknown])];
      expect((await Promise.all(both)).map(({ length }) => length).sort()).toEqual([0, 1]);
    });

    test("the collector removes what nobody needs or knows after the grace, and nothing else", async () => {
      const folder = mkdtempSync(join(tmpdir(), "sandpiper-collected-"));
      const blobs: BlobStore = await openBlobStore({ kind: "folder", path: folder });
      const logger = { info: () => {}, warn: (fields: object) => expect(fields).toBeUndefined() };
      const collector = (now: number) =>
        new BlobCollector({ blobs, references: store.blobs, graceMs: 3_600_000, logger, now: () => now });
      try {
        const holder = await addSandbox("s1");
        const put = (text: string) => blobs.put(Readable.from([Buffer.from(text)]));
        const [needed, unused, unknown] = [await put("needed"), await put("unused"), await put("unknown")];
        await store.blobs.keep(holder, unused!);
        await store.blobs.keep(holder, needed!);
        await collector(Date.now()).tick();
        for (const one of [needed, unused, unknown]) expect(await blobs.has(one!)).toBe(true);
        await collector(Date.now() + 3_700_000).tick();
        const left = (await blobs.list()).blobs.map(({ digest }) => digest);
        expect(left).toEqual([needed!.digest]);
        expect(await store.blobs.keep(holder, unused!)).toBe(true);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  });
}
