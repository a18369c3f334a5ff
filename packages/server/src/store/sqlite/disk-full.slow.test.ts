import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import {
  conversationRow,
  message,
  openStore,
  stateUpdate,
  temporaryFolder,
} from "../../../test/support/store.ts";

test("a full disk refuses appends with StorageFull, stores no part of them, and accepts new ones once there is space", async () => {
  const { dir, remove } = temporaryFolder();
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m,mode=700", "sandpiper-test", dir]);
  try {
    writeFileSync(join(dir, "ballast"), Buffer.alloc(2 << 20));
    const store = await openStore(dir);
    const row = conversationRow();
    await store.conversations.create(row);
    const large = message("x".repeat(100_000));

    const received: number[] = [];
    store.events.follow(row.id, (records) => received.push(...records.map((record) => record.seq)));
    let acknowledged = 0;
    let refusal: unknown;
    while (refusal === undefined) {
      const results = await Promise.allSettled(
        [large, large, large].map((record) => store.events.append(row.id, [record])),
      );
      for (const result of results) {
        if (result.status === "fulfilled") acknowledged += 1;
        else refusal = result.reason;
      }
    }
    expect(refusal).toMatchObject({ code: "StorageFull", status: 507 });
    const status = [stateUpdate("execution_status", "running"), large, large];
    await expect(store.events.append(row.id, status)).rejects.toMatchObject({ code: "StorageFull" });
    expect(await store.events.lastSeq(row.id)).toBe(acknowledged);
    expect((await store.conversations.get(row.id))!.summary.executionStatus).toBe("idle");
    expect(received).toHaveLength(acknowledged);

    rmSync(join(dir, "ballast"));
    const [after] = await store.events.append(row.id, [large]);
    expect(after!.seq).toBe(acknowledged + 1);
    await store.close();

    const reopened = await openStore(dir);
    const stored = (await reopened.events.read(row.id, 0, 1000)).map((record) => record.seq);
    expect(stored).toEqual(Array.from({ length: acknowledged + 1 }, (_, index) => index + 1));
    await reopened.close();
  } finally {
    execFileSync("umount", ["--lazy", dir]);
    remove();
  }
});

test("a disk that is full when the log's index has to grow is reported as full, too", async () => {
  const { dir, remove } = temporaryFolder();
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m,mode=700", "sandpiper-test", dir]);
  try {
    const [before, after] = [join(dir, "before"), join(dir, "after")];
    mkdirSync(before);
    const row = conversationRow();
    const large = message("x".repeat(100_000));
    const first = await openStore(before);
    await first.conversations.create(row);
    for (let count = 0; count < 180; count++) await first.events.append(row.id, [large]);
    // The state after a kill: a log with free space, and a small index.
    cpSync(before, after, { recursive: true, filter: (path) => !basename(path).endsWith("-shm") });
    await first.close();
    rmSync(before, { recursive: true });
    const store = await openStore(after);
    expect(() => writeFileSync(join(dir, "ballast"), Buffer.alloc(64 << 20))).toThrow(/ENOSPC/);
    let refusal: unknown;
    while (refusal === undefined)
      await store.events.append(row.id, [large]).catch((error) => (refusal = error));
    expect(refusal).toMatchObject({ code: "StorageFull", status: 507 });
    rmSync(join(dir, "ballast"));
    await store.events.append(row.id, [large]);
    await store.close();
  } finally {
    execFileSync("umount", ["--lazy", dir]);
    remove();
  }
});

test("after a write that did not fit a smaller one is refused too, until there is room", async () => {
  const { dir, remove } = temporaryFolder();
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=16m,mode=700", "sandpiper-test", dir]);
  try {
    const store = await openStore(dir);
    const row = conversationRow();
    await store.conversations.create(row);
    const ballast = join(dir, "ballast");
    expect(() => writeFileSync(ballast, Buffer.alloc(16 << 20))).toThrow(/ENOSPC/);
    // Enough for the small event, not for the large one.
    truncateSync(ballast, statSync(ballast).size - 60_000);
    const full = { code: "StorageFull" };
    await expect(store.events.append(row.id, [message("x".repeat(200_000))])).rejects.toMatchObject(full);
    await expect(store.events.append(row.id, [message("small")])).rejects.toMatchObject(full);
    await expect(store.events.append(row.id, [])).rejects.toMatchObject(full);
    rmSync(ballast);
    await store.events.append(row.id, []);
    await store.events.append(row.id, [message("small")]);
    await store.close();
  } finally {
    execFileSync("umount", ["--lazy", dir]);
    remove();
  }
});

test("the reserve lasts for hundreds of writes that stop something", async () => {
  const { dir, remove } = temporaryFolder();
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=16m,mode=700", "sandpiper-test", dir]);
  try {
    const store = await openStore(dir);
    const row = conversationRow();
    await store.conversations.create(row);
    expect(() => writeFileSync(join(dir, "ballast"), Buffer.alloc(16 << 20))).toThrow(/ENOSPC/);
    const pause = { listed: true, event: { kind: "PauseEvent", source: "user" } } as const;
    for (let count = 0; count < 300; count++) await store.events.append(row.id, [pause]);
    await expect(store.events.append(row.id, [message("more")])).rejects.toMatchObject({
      code: "StorageFull",
    });
    await store.close();
  } finally {
    execFileSync("umount", ["--lazy", dir]);
    remove();
  }
});
