import { once } from "node:events";
import { readdirSync } from "node:fs";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestDriver, run, testSpec, workingRuntimes } from "../../../test/support/oci.ts";
import { connectInside, listenInside } from "../common/sockets/ports.ts";
import type { OciDriver } from "./oci-driver.ts";

/** A server that answers each connection with its input in upper case; prints a line when ready. */
const server = (family: string, address: string, port: number) => `import socket
s = socket.socket(socket.${family}); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("${address}", ${port})); s.listen(); print("ready", flush=True)
while True:
  c, _ = s.accept(); data = b""
  while chunk := c.recv(65536): data += chunk
  c.sendall(data.upper()); c.close()`;

const descriptors = () => readdirSync("/proc/self/fd").length;

describe.each(await workingRuntimes())("ports of a sandbox of %s", (runtime) => {
  let driver: OciDriver;
  let end: () => Promise<void>;
  const serve = async (family: string, address: string, port: number) => {
    const command = await driver.exec("one", { argv: ["python3", "-c", server(family, address, port)] });
    await once(command.stdout, "data");
    return command;
  };
  const ask = async (connection: Duplex, question: string) => {
    connection.end(question);
    return text(connection);
  };

  beforeAll(async () => {
    ({ driver, end } = await openTestDriver(runtime));
    await Promise.all([
      driver.start({ id: "one", spec: testSpec }),
      driver.start({ id: "two", spec: testSpec }),
    ]);
  });
  afterAll(() => end());

  test("connects to a server inside, over IPv4 and over IPv6 alone, with half-closed connections", async () => {
    const four = await serve("AF_INET", "127.0.0.1", 8011);
    const six = await serve("AF_INET6", "::1", 8012);
    expect(await ask(await driver.connect("one", 8011), "hello")).toBe("HELLO");
    expect(await ask(await driver.connect("one", 8012), "six")).toBe("SIX");
    const much = "a".repeat(5_000_000);
    expect(await ask(await driver.connect("one", 8011), much)).toBe(much.toUpperCase());
    await expect(driver.connect("two", 8011)).rejects.toMatchObject({ code: "PortUnreachable" });
    for (const command of [four, six]) command.kill();
    await Promise.all([four.exit, six.exit]);
  });

  test("reports a free port, a program that does not accept, and a stopped sandbox", async () => {
    await expect(driver.connect("one", 9)).rejects.toMatchObject({
      code: "PortUnreachable",
      message: expect.stringContaining("port 9"),
    });
    const deaf = await driver.exec("one", {
      argv: [
        "python3",
        "-c",
        "import socket,time\ns=socket.socket();s.bind(('127.0.0.1',8013));s.listen(0);print(1,flush=True);time.sleep(99)",
      ],
    });
    await once(deaf.stdout, "data");
    const taken = await Promise.all([driver.connect("one", 8013)]);
    const refused = driver.connect("one", 8013).catch((error) => error);
    expect(await refused).toMatchObject({
      code: "PortUnreachable",
      message: expect.stringContaining("accepts no connections"),
    });
    for (const connection of taken) connection.destroy();
    deaf.kill();
    await expect(driver.connect("none", 1)).rejects.toMatchObject({ code: "SandboxNotRunning" });
    await driver.pause("two");
    await expect(driver.connect("two", 1)).rejects.toMatchObject({ code: "SandboxNotRunning" });
    await driver.resume("two");
  });

  test("listens inside one sandbox only, until it is closed", async () => {
    const listener = await driver.listen("one", 3128, (connection) => connection.end("from outside"));
    const reach = "exec 3<>/dev/tcp/127.0.0.1/3128 && cat <&3";
    const inside = (id: string) => run(driver, id, { argv: ["bash", "-c", reach] });
    expect(await inside("one")).toMatchObject({ code: 0, out: "from outside" });
    expect((await inside("two")).code).not.toBe(0);
    await expect(driver.listen("one", 3128, () => {})).rejects.toMatchObject({ code: "PortUnreachable" });
    listener.close();
    expect((await inside("one")).code).not.toBe(0);
    await (await driver.listen("one", 3128, () => {})).close();
  });

  test("leaks no descriptor, whether a connection succeeds or fails", async () => {
    const before = descriptors();
    for (let round = 0; round < 50; round++) {
      await driver.connect("one", 9).catch(() => {});
      await driver.listen("one", 3128, () => {}).then((listener) => listener.close());
    }
    await driver.start({ id: "three", spec: testSpec });
    await driver.listen("three", 3128, () => {});
    await driver.remove("three");
    await expect.poll(descriptors).toBeLessThanOrEqual(before);
  });

  test("never connects to another process that has the id of a sandbox's", async () => {
    // This process represents a process that got the id of an ended process of a sandbox.
    await expect(connectInside(process.pid, 22)).rejects.toMatchObject({ code: "SandboxNotRunning" });
    await expect(listenInside(process.pid, 3128, () => {})).rejects.toMatchObject({
      code: "SandboxNotRunning",
    });
    await expect(connectInside(2 ** 22 + 1, 22)).rejects.toMatchObject({ code: "SandboxNotRunning" });
  });
});
