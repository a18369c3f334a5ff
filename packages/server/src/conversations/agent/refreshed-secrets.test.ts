import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { SecretMask } from "@sandpiper/core/secrets/mask";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestStore } from "../../../test/support/store.ts";
import { StoredSecrets } from "../../users/secrets.ts";
import { RefreshedSecrets } from "./refreshed-secrets.ts";
import { describeSecrets, resolveSecrets } from "./secret-sources.ts";

/** Secrets that clients give as URLs, against a real server with changing answers. */

const owner = { userId: "ann", conversationId: "c", sandboxId: "s" };
const never = new AbortController().signal;
const outbound = createOutbound({ allowPrivate: ["127.0.0.0/8"] });
const mask = new SecretMask();
const seen: (string | undefined)[] = [];
let answer: { status: number; text: string; hangs?: boolean };
let opened: Awaited<ReturnType<typeof createTestStore>>;
let secrets: StoredSecrets;
let listener: Server;
let url: string;

beforeAll(async () => {
  opened = await createTestStore();
  const { userSecrets: users, conversationSecrets: conversations } = opened.store;
  secrets = new StoredSecrets({ users, conversations, mask });
  listener = createServer((request, response) => {
    seen.push(request.headers["x-key"] as string | undefined);
    if (!answer.hangs) response.writeHead(answer.status).end(answer.text);
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/token`;
});

afterAll(async () => {
  listener.closeAllConnections();
  listener.close();
  await outbound.close();
  await opened.close();
});

async function give(sources: Parameters<typeof resolveSecrets>[2]): Promise<void> {
  const deps = { secrets, outbound, publicUrl: () => "http://sandpiper.test" };
  await secrets.putConversation(
    owner,
    await resolveSecrets(deps, owner, sources),
    describeSecrets(deps, sources),
  );
}

const open = (freshMs: number) => new RefreshedSecrets({ store: opened.store, secrets, outbound, freshMs });
const value = async (name: string) =>
  (await secrets.forSandbox("ann", "s")).find((one) => one.name === name)?.value;

test("a URL is fetched again once its value is old; after a failure the last value stays, with one note", async () => {
  answer = { status: 200, text: "first-token" };
  await give({
    TOKEN: { kind: "LookupSecret", url, headers: { "X-Key": "open" }, description: "Changes" },
    FIXED: "always",
  });
  expect(await value("TOKEN")).toBe("first-token");

  answer.text = "second-token";
  await open(60_000).prepare(owner, never);
  expect([await value("TOKEN"), seen.length]).toEqual(["first-token", 1]);

  const looked = open(0);
  expect(await looked.prepare(owner, never)).toEqual([]);
  expect([await value("TOKEN"), await value("FIXED"), seen]).toEqual([
    "second-token",
    "always",
    ["open", "open"],
  ]);
  expect((await opened.store.conversationSecrets.get("c"))?.descriptions).toEqual({ TOKEN: "Changes" });
  // A response from the old URL may still arrive.
  expect(mask.mask("first-token second-token")).not.toContain("token");

  answer = { status: 503, text: "planted-words" };
  const [note, ...others] = await looked.prepare(owner, never);
  expect(others).toEqual([]);
  expect(note).toBe(
    "The secret TOKEN could not be fetched again, so its last value is used: The URL of the secret TOKEN answered 503.",
  );
  expect(await looked.prepare(owner, never)).toEqual([]);
  answer = { status: 200, text: "" };
  expect(await looked.prepare(owner, never)).toEqual([]);
  expect(await value("TOKEN")).toBe("second-token");
  answer = { status: 200, text: "third-token" };
  expect(await looked.prepare(owner, never)).toEqual([]);
  expect(await value("TOKEN")).toBe("third-token");
});

test("a URL that does not answer delays a run briefly, and a newer value from a client stays", async () => {
  answer = { status: 200, text: "fourth-token" };
  await give({ TOKEN: { url } });
  answer = { status: 200, text: "", hangs: true };
  const looked = open(0);
  const abort = new AbortController();
  const before = seen.length;
  const prepared = looked.prepare(owner, abort.signal);
  while (seen.length === before) await new Promise((resolve) => setTimeout(resolve, 5));
  await give({ TOKEN: "given by hand" });
  abort.abort();
  expect(await prepared).toEqual([]);
  listener.closeAllConnections();
  await looked.prepare(owner, never);
  expect(await value("TOKEN")).toBe("given by hand");
  const asked = seen.length;
  expect(await looked.tools(owner)).toEqual([]);
  await looked.prepare(owner, never);
  expect(seen).toHaveLength(asked);
});
