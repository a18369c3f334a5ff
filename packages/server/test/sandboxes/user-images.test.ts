import { UserImages } from "@sandpiper/sandbox/service/user-images";
import { createHostSpec } from "@sandpiper/sandbox/specs/specs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { postgresEngine } from "../store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";

/** The images of a user's sandboxes at several servers on one database. */

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
const engine = postgresEngine(() => server);

const limits = { memoryBytes: 2 ** 30, pids: 100, cpus: 1, diskBytes: 2 ** 30 };
const withImage = (reference: string) => ({
  ...createHostSpec(limits),
  id: reference,
  root: { kind: "image" as const, reference },
});

async function openServer(place: string) {
  const { sandboxes, snapshots, close } = await engine.openStore(place);
  const users = new Map<string, string>();
  const everywhere = (userId: string) => sandboxes.listByUser(userId);
  const images = new UserImages({ owner: (id) => users.get(id), snapshots, specs: [], everywhere, max: 3 });
  return {
    sandboxes,
    close,
    /** Starts a sandbox in the same steps as the service. */
    async start(id: string, reference: string, createdAt: number) {
      const spec = withImage(reference);
      const digest = withImage(`${reference}@1`);
      const row = { id, userId: "ann", createdAt };
      users.set(id, "ann");
      await sandboxes.create({
        ...{ ...row, specId: spec.id, status: "STARTING", statusDetail: null, incarnation: "1", spec },
        ...{ sessionKey: "key", prepared: false, snapshotId: null, lastUsedAt: 1 },
      });
      try {
        await images.admit(row, spec);
        await images.admit(row, digest);
        await sandboxes.update(id, { status: "RUNNING", spec: digest, prepared: true });
        return "running";
      } catch (error) {
        await sandboxes.update(id, { status: "ERROR" });
        return (error as { code: string }).code;
      }
    },
  };
}

test("images are counted at all servers together, also for sandboxes that start at the same time", async () => {
  const { place, remove } = await engine.newPlace();
  const servers = await Promise.all([1, 2, 3].map(() => openServer(place)));
  const started = await Promise.all(
    Array.from({ length: 9 }, (_, index) =>
      servers[index % 3]!.start(`s${index}`, `image-${index}`, index < 5 ? 1 : 2),
    ),
  );
  const count = (outcome: string) => started.filter((one) => one === outcome).length;
  expect([count("running"), count("TooManySandboxes")]).toEqual([3, 6]);
  // An image that another server keeps counts once, and a sandbox that is gone counts no longer.
  const kept = started.indexOf("running");
  expect(await servers[(kept + 1) % 3]!.start("same", `image-${kept}`, 3)).toBe("running");
  expect(await servers[kept % 3]!.start("new", "image-new", 4)).toBe("TooManySandboxes");
  const [gone] = (await servers[0]!.sandboxes.listByUser("ann")).filter(
    ({ id, status }) => status === "RUNNING" && id !== `s${kept}` && id !== "same",
  );
  await servers[0]!.sandboxes.remove(gone!.id);
  const elsewhere = servers[(Number(gone!.id.slice(1)) + 1) % 3]!;
  expect(await elsewhere.start("next", "image-next", 5)).toBe("running");
  for (const { close } of servers) await close();
  await remove();
});
