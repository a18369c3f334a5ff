import { execFileSync } from "node:child_process";
import { chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { postgresEngine } from "../../../test/store-suite/postgres-engine.ts";
import { startPostgres } from "../../../test/support/postgres.ts";
import { conversationRow, message } from "../../../test/support/store.ts";

test("a full disk of the database refuses appends with StorageFull, stores no part of them, and is over once there is room", async () => {
  const disk = mkdtempSync(join(tmpdir(), "sandpiper-tablespace-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=700", "sandpiper-test", disk]);
  const server = await startPostgres();
  try {
    const { uid, gid } = statSync(server.folder);
    chownSync(disk, uid, gid);
    await server.query(`CREATE TABLESPACE small LOCATION '${disk}'`);
    await server.query("CREATE DATABASE full_disk TABLESPACE small");
    const ballast = join(disk, "ballast");
    writeFileSync(ballast, Buffer.alloc(4 << 20));
    const store = await postgresEngine(() => server).openStore(server.url("full_disk"));
    const row = conversationRow();
    await store.conversations.create(row);
    // PostgreSQL compresses texts.
    const large = () => message(Array.from({ length: 8_000 }, () => Math.random().toString(36)).join(""));
    let acknowledged = 0;
    let refusal: unknown;
    while (refusal === undefined) {
      const results = await Promise.allSettled([1, 2, 3].map(() => store.events.append(row.id, [large()])));
      for (const result of results) {
        if (result.status === "fulfilled") acknowledged += 1;
        else refusal = result.reason;
      }
    }
    expect(refusal).toMatchObject({ code: "StorageFull", status: 507 });
    expect(await store.events.lastSeq(row.id)).toBe(acknowledged);
    rmSync(ballast);
    const [after] = await store.events.append(row.id, [large()]);
    expect(after!.seq).toBe(acknowledged + 1);
    const stored: number[] = [];
    // Long records make pages short.
    for (let page = [0]; page.length > 0; stored.push(...page))
      page = (await store.events.read(row.id, stored.length, 1000)).map(({ seq }) => seq);
    expect(stored).toEqual(Array.from({ length: acknowledged + 1 }, (_, index) => index + 1));
    await store.close();
  } finally {
    await server.remove();
    execFileSync("umount", ["--lazy", disk]);
    rmSync(disk, { recursive: true });
  }
});
