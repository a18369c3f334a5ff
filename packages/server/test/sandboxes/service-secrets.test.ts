import type { Server } from "node:http";
import { SecretMask } from "@sandpiper/core/secrets/mask";
import type { SandboxService } from "@sandpiper/sandbox/service/service";
import { openTerminal } from "@sandpiper/sandbox/shell/terminal";
import { ownAddress, policyOf, serve, TestProxy } from "@sandpiper/sandbox/test/support/egress";
import { testSpec } from "@sandpiper/sandbox/test/support/oci";
import { afterAll, beforeAll, expect, test } from "vitest";
import { StoredSecrets } from "../../src/users/secrets.ts";
import { ServiceBench, sh } from "../support/sandbox-service.ts";

/** Stored secrets of users in sandboxes of the service: what commands see, and what goes out. */

const address = ownAddress();
const value = "the-stored-value-of-a-secret";
const seen = new Map<string, string | undefined>();
const rule = { host: "a.test", ports: [443], methods: null };
const specs = [{ ...testSpec, network: policyOf({ allow: [rule] }) }];
const mask = new SecretMask();
let server: Server;
/** Why sandboxes get no secrets. */
let restriction: string | undefined;
let bench: ServiceBench;
let proxy: TestProxy;
let secrets: StoredSecrets;
let service: SandboxService;

beforeAll(async () => {
  const listener: Parameters<typeof serve>[0] = (request, response) => {
    seen.set(request.url!, request.headers.authorization);
    response.end("done");
  };
  server = await serve(listener, { address, port: 443, host: "a.test" });
  bench = await new ServiceBench().open();
  const { userSecrets: users, conversationSecrets: conversations } = bench.store;
  secrets = new StoredSecrets({ users, conversations, mask });
  proxy = await TestProxy.open({
    env: {},
    resolve: async () => [address],
    secrets: {
      forSandbox: (userId, sandboxId) => secrets.forSandbox(userId, sandboxId),
      withheld: async () => restriction,
    },
  });
  service = await bench.serve({ specs, egress: proxy.proxy });
});
afterAll(async () => {
  await bench.end();
  await proxy.close();
  server.close();
});

const create = async (userId: string) => (await service.create(userId)).id;
const inside = async (id: string, command: string) => sh(await service.running(id), command);
const send = async (id: string, variable: string, path: string, more = "") => {
  await inside(id, `curl -sS -m 10 ${more} -H "Authorization: Bearer $${variable}" https://a.test${path}`);
  return seen.get(path);
};

test("every command has a secret's placeholder; the secret is sent, changed, removed and added without a restart", async () => {
  await secrets.put("ann", { name: "FIRST", value }, { replace: true });
  const id = await create("ann");
  expect(await send(id, "FIRST", "/first")).toBe(`Bearer ${value}`);
  await secrets.put("ann", { name: "SECOND", value: "second-value" }, { replace: true });
  expect(await send(id, "SECOND", "/second")).toBe("Bearer second-value");
  const terminal = openTerminal(await service.running(id));
  const { content } = await terminal.run(
    {
      kind: "TerminalAction",
      command: 'curl -sS -H "Authorization: Bearer $SECOND" https://a.test/terminal; env',
      is_input: false,
      timeout: null,
      reset: false,
    },
    AbortSignal.timeout(150_000),
  );
  terminal.close();
  expect(seen.get("/terminal")).toBe("Bearer second-value");
  expect(JSON.stringify(content)).toMatch(/SECOND=sandpiper_/);
  const everything = await inside(
    id,
    "env; cat /proc/*/environ; cat /etc/sandpiper/* ~/.* /tmp/* 2>/dev/null",
  );
  expect(everything).toContain("SECOND=sandpiper_");
  expect(everything).not.toContain("second-value");
  expect(everything).not.toContain(value);
  await secrets.remove("ann", "SECOND");
  expect(await inside(id, 'echo "$SECOND"')).toBe("\n");
  await secrets.rename("ann", "FIRST", { name: "FIRST", hosts: ["elsewhere.test"] });
  expect(await send(id, "FIRST", "/moved", "-k")).toMatch(/^Bearer sandpiper_/);
  expect(mask.mask(`a ${value} b`)).not.toContain(value);
});

test("a conversation's secret exists only in its sandbox and overrides the user's", async () => {
  await secrets.put("eve", { name: "KEY", value: "user-value" }, { replace: true });
  const [first, second] = [await create("eve"), await create("eve")];
  await secrets.putConversation(
    { userId: "eve", conversationId: "c", sandboxId: first },
    { KEY: "conversation-value", MORE: "more-value" },
  );
  expect(await send(first, "KEY", "/own")).toBe("Bearer conversation-value");
  expect(await send(first, "MORE", "/more")).toBe("Bearer more-value");
  expect(await send(second, "KEY", "/others")).toBe("Bearer user-value");
  expect(await inside(second, 'echo "$MORE"')).toBe("\n");
  await secrets.removeConversation("c");
  expect(await send(first, "KEY", "/after")).toBe("Bearer user-value");
});

test("a sandbox that started without secrets gets them with the next command, and running processes keep their TLS", async () => {
  const id = await create("bob");
  expect(await inside(id, "env | grep -c SSL_CERT_FILE")).toBe("0\n");
  const wait = "until [ -e /tmp/go ]; do sleep 0.05; done";
  const early = inside(id, `${wait}; curl -sSk -m 10 https://a.test/running && echo " $LATE"`);
  await secrets.put("bob", { name: "LATE", value }, { replace: true });
  await inside(id, "touch /tmp/go");
  expect(await early).toBe("done \n");
  // A request that the proxy reads is logged with its own method. Written as the tunnel ends.
  await expect
    .poll(async () => (await proxy.proxy.decisions(id, { limit: 1 }))[0])
    .toMatchObject({ method: "CONNECT", host: "a.test" });
  expect(await send(id, "LATE", "/late")).toBe(`Bearer ${value}`);
  await service.close();
  service = await bench.serve({ specs, egress: proxy.proxy });
  expect(await send(id, "LATE", "/restarted")).toBe(`Bearer ${value}`);
});

test("a plain secret is known inside, with its lines, until its owner takes that back or the sandbox is restricted", async () => {
  const key = "-----BEGIN KEY-----\nline 'two' of $KEY\n-----END KEY-----";
  await secrets.put("zoe", { name: "DB_PASSWORD", value: key, plain: true }, { replace: true });
  await secrets.put("zoe", { name: "HIDDEN", value: "hidden-value" }, { replace: true });
  const id = await create("zoe");
  const read = async (variable: string) => {
    const terminal = openTerminal(await service.running(id));
    const command = `printf %s "$${variable}" >/tmp/seen`;
    const action = { kind: "TerminalAction", command, is_input: false, timeout: null, reset: false } as const;
    await terminal.run(action, AbortSignal.timeout(150_000));
    terminal.close();
    expect(await inside(id, "cat /tmp/seen")).toBe(await inside(id, `printf %s "$${variable}"`));
    return inside(id, "cat /tmp/seen");
  };
  expect(await read("DB_PASSWORD")).toBe(key);
  expect(await read("HIDDEN")).toMatch(/^sandpiper_/);
  expect(mask.mask(`a ${key} b`)).toBe("a ********** b");
  expect(await send(id, "HIDDEN", "/hidden")).toBe("Bearer hidden-value");

  restriction = "Not accepted.";
  expect(await read("DB_PASSWORD")).toMatch(/^sandpiper_/);
  // What the sandbox started with, and the shells that wait for commands, have no value either.
  expect(await inside(id, "grep -als HIDDEN= /proc/[0-9]*/environ | grep -c .")).not.toBe("0");
  expect(await inside(id, "grep -als BEGIN /proc/[0-9]*/environ || true")).toBe("");
  restriction = undefined;
  await secrets.put("zoe", { name: "DB_PASSWORD", value: "another-value" }, { replace: true });
  expect(await read("DB_PASSWORD")).toBe("another-value");
  await secrets.putConversation(
    { userId: "zoe", conversationId: "z", sandboxId: id },
    { DB_PASSWORD: "own" },
  );
  expect(await read("DB_PASSWORD")).toMatch(/^sandpiper_/);
  await secrets.removeConversation("z");
  await secrets.rename("zoe", "DB_PASSWORD", { name: "DB_PASSWORD", plain: false });
  expect(await read("DB_PASSWORD")).toMatch(/^sandpiper_/);
  expect((await secrets.list("zoe")).map(({ name, plain }) => [name, plain])).toEqual([
    ["DB_PASSWORD", false],
    ["HIDDEN", false],
  ]);
});
