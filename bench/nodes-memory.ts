import { randomBytes } from "node:crypto";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { openPostgresStore } from "@sandpiper/server/store/postgres/open";
import { createVault } from "@sandpiper/server/store/vault";
import { startPostgres } from "@sandpiper/server/test/support/postgres";
import { conversationRow } from "@sandpiper/server/test/support/store";
import { type Row, single } from "./measure.ts";

const followed = 10_000;

/** Memory of a node for each conversation whose log it follows, without the follower's socket. */
export async function benchNodesMemory(): Promise<Row[]> {
  const server = await startPostgres();
  try {
    const store = await openPostgresStore({
      url: await server.createDatabase(),
      vault: createVault(randomBytes(32)),
    });
    const ids = Array.from({ length: followed }, () => conversationRow().id);
    // The log of an unknown conversation is empty, and following it costs as much.
    const follow = async (id: string) => {
      store.events.follow(id, () => {});
      await store.events.lastSeq(id);
    };
    await follow(conversationRow().id);
    const before = heapBytes();
    await Promise.all(ids.map(follow));
    const each = (heapBytes() - before) / followed;
    await store.close();
    return [
      {
        name: `a followed conversation on PostgreSQL, of ${followed}`,
        unit: "KB",
        figures: single(each / 1024),
        target: "< 4 KB",
        met: each < 4096,
      },
    ];
  } finally {
    await server.remove();
  }
}

/** Bytes of the objects of this process after a garbage collection. */
function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().heapUsed;
}
