import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { run, type SuiteContext } from "./context.ts";

/** The part of the driver suite about TCP ports, in both directions. */
export function describePorts(context: SuiteContext): void {
  test("connects to a server inside", async () => {
    const { driver } = context;
    const server = await driver.exec("one", { argv: ["busybox", "nc", "-ll", "-p", "8080", "-e", "cat"] });
    const connection = await connected(() => driver.connect("one", 8080));
    connection.end("echoed");
    expect(await text(connection)).toBe("echoed");
    server.kill();
    await server.exit;
    await expect(driver.connect("one", 8080)).rejects.toMatchObject({ code: "PortUnreachable" });
  });

  test("accepts connections from inside", async () => {
    const { driver } = context;
    const listener = await driver.listen("one", 3128, (connection) => connection.pipe(connection));
    const answer = await run(driver, "one", "echo through | busybox nc 127.0.0.1 3128");
    expect(answer).toMatchObject({ code: 0, out: "through\n" });
    listener.close();
    await expect
      .poll(async () => (await run(driver, "one", "echo x | busybox nc 127.0.0.1 3128")).code)
      .not.toBe(0);
  });

  test("gives each sandbox its own ports", async () => {
    const { driver, spec } = context;
    await driver.start({ id: "two", spec });
    const answer = (word: string) => (connection: NodeJS.WritableStream) => void connection.end(word);
    const listeners = [
      await driver.listen("one", 3129, answer("one")),
      await driver.listen("two", 3129, answer("two")),
    ];
    const ask = async (id: string) => (await run(driver, id, "busybox nc 127.0.0.1 3129 </dev/null")).out;
    expect([await ask("one"), await ask("two")]).toEqual(["one", "two"]);
    for (const listener of listeners) listener.close();
  });

  test("closes a listener with the sandbox's processes and listens again after a restart", async () => {
    const { driver, spec } = context;
    await driver.start({ id: "two", spec });
    const accept = (connection: NodeJS.WritableStream) => void connection.end("here");
    const before = await driver.listen("two", 3130, accept);
    await driver.stop("two");
    await driver.start({ id: "two", spec });
    expect((await run(driver, "two", "busybox nc 127.0.0.1 3130 </dev/null")).code).not.toBe(0);
    await driver.listen("two", 3130, accept);
    expect(await run(driver, "two", "busybox nc 127.0.0.1 3130 </dev/null")).toMatchObject({ out: "here" });
    before.close();
  });
}

/** Retries until the server inside listens. */
async function connected<T extends NodeJS.EventEmitter>(connect: () => Promise<T>): Promise<T> {
  for (const end = Date.now() + 5_000; ; ) {
    try {
      return await connect();
    } catch (error) {
      if (Date.now() > end) throw error;
      await delay(10);
    }
  }
}
