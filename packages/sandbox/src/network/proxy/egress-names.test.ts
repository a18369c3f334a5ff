import { systemResolve } from "@sandpiper/core/outbound/resolve";
import { startNameServer } from "@sandpiper/core/test/support/name-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  ownAddress,
  recordRequests,
  type SeenRequest,
  serve,
  TestProxy,
} from "../../../test/support/egress.ts";

/** Names of an attacker's own name server, asked for by a sandbox. */

const [address, inside] = [ownAddress(), ownAddress()];
const answers = new Map<string, string[][]>();
const seen: SeenRequest[] = [];
const closing: { close(): unknown }[] = [];
let proxy: TestProxy;

beforeAll(async () => {
  const names = await startNameServer((name) => {
    const list = answers.get(name) ?? [];
    return (list.length > 1 ? list.shift() : list[0]) ?? [];
  });
  proxy = await TestProxy.open({ resolve: systemResolve({ servers: [names.address], timeoutMs: 1_000 }) });
  const record = recordRequests(seen);
  closing.push(
    names,
    await serve(record, { address, port: 80 }),
    await serve(record, { address: inside, port: 80 }),
  );
  await proxy.attach("open", { mode: "open", private: [`${address}/32`] });
});
afterAll(async () => {
  await proxy.close();
  for (const one of closing) one.close();
});

/** The status of the answer to a request for a name with these answers, one per question. */
async function ask(name: string, ...addresses: string[][]): Promise<number> {
  answers.set(name, addresses);
  const { out } = await proxy.curl("open", `http://${name}/`);
  return Number(/^HTTP\/1\.1 (\d+)/.exec(out)?.[1]);
}

test.each([
  ["::ffff:127.0.0.1"],
  ["64:ff9b::7f00:1"],
  ["2002:7f00:1::1"],
  ["0.0.0.0"],
  ["169.254.169.254"],
  ["fd00:ec2::254"],
])("a name with the address %s is refused", async (one) => {
  expect(await ask(`a${one.replaceAll(/[.:]/g, "-")}.test`, [one])).toBe(403);
});

test("of several addresses only those are tried that may be reached", async () => {
  expect(await ask("mixed.test", [inside, "::1", address, "::ffff:127.0.0.1"])).toBe(200);
  expect(await ask("inside.test", [inside, "::1"])).toBe(403);
  expect(seen.map(({ host }) => host)).toEqual(["mixed.test"]);
});

test("a name that changes its address is checked again for each connection", async () => {
  answers.set("rebind.test", [[address], [address], [inside]]);
  for (const status of [200, 403]) {
    const tunnel = await proxy.tunnel("open", "rebind.test:80");
    expect(tunnel.status).toBe(status);
    tunnel.socket.destroy();
  }
});
