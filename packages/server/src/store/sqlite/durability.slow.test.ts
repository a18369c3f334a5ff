import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { conversationRow, message, openStore, temporaryFolder } from "../../../test/support/store.ts";

let dir: string;
let remove: () => void;

beforeEach(() => {
  ({ dir, remove } = temporaryFolder());
});
afterEach(() => remove());

/** Runs a fixture until it has written some lines, then kills it. Gives all lines that it wrote. */
async function killAfterLines(
  fixture: string,
  args: string[],
  lines: number,
  meanwhile?: () => Promise<void>,
): Promise<string[]> {
  const file = fileURLToPath(new URL(`./fixtures/${fixture}`, import.meta.url));
  const child = spawn(process.execPath, [file, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const written: string[] = [];
  let enough = () => {};
  const reached = new Promise<void>((resolve) => {
    enough = resolve;
  });
  const reader = createInterface({ input: child.stdout }).on("line", (line) => {
    if (written.push(line) >= lines) enough();
  });
  const closed = once(reader, "close");
  await Promise.race([reached, exited]);
  try {
    await meanwhile?.();
  } finally {
    child.kill("SIGKILL");
    await Promise.all([exited, closed]);
  }
  return written;
}

test("after kill -9 every acknowledged record is stored once, and sequence numbers have no gaps", async () => {
  const row = conversationRow();
  const store = await openStore(dir);
  await store.conversations.create(row);
  await store.close();

  const acknowledged = new Map<number, string>();
  for (const lines of [100, 1000, 3000]) {
    for (const line of await killAfterLines("append-forever.ts", [dir, row.id], lines)) {
      const [seq, eventId] = line.split(" ");
      // A line that the kill has cut short acknowledges nothing.
      if (eventId?.length === 36) acknowledged.set(Number(seq), eventId);
    }
    const reopened = await openStore(dir);
    const stored = await reopened.events.read(row.id, 0, 1_000_000);
    const last = await reopened.events.lastSeq(row.id);
    expect(await reopened.events.count(row.id)).toBe(last);
    await reopened.events.append(row.id, [message("between two lives")]);
    await reopened.close();
    expect(stored.map((record) => record.seq)).toEqual(Array.from({ length: last }, (_, index) => index + 1));
    expect(new Set(stored.map((record) => record.event.id)).size).toBe(last);
    const times = stored.map((record) => record.event.timestamp);
    expect(times.toSorted()).toEqual(times);
    const lost = [...acknowledged].filter(([seq, eventId]) => stored[seq - 1]?.event.id !== eventId);
    expect(lost).toEqual([]);
  }
  expect(acknowledged.size).toBeGreaterThan(4000);
});

test("a second process on the same folder gets an error that names it; kill -9 of the first releases the folder", async () => {
  await killAfterLines("hold-folder.ts", [dir], 1, async () => {
    const refused = openStore(dir);
    await expect(refused).rejects.toMatchObject({ code: "ConfigInvalid" });
    await expect(refused).rejects.toThrow(`The data folder ${dir} is in use by another Sandpiper process`);
  });
  await (await openStore(dir)).close();
});

test("the same process cannot open a folder twice, but can reopen it after close", async () => {
  const store = await openStore(dir);
  await expect(openStore(dir)).rejects.toMatchObject({ code: "ConfigInvalid" });
  const row = conversationRow();
  await store.conversations.create(row);
  await store.close();
  const again = await openStore(dir);
  expect((await again.conversations.get(row.id))?.id).toBe(row.id);
  await again.close();
});
