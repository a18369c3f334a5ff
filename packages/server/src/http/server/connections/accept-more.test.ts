import { once } from "node:events";
import { createServer, request } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer } from "node:net";
import { expect, test } from "vitest";
import { acceptMore } from "./accept-more.ts";

async function listen() {
  const server = createServer((_request, response) => response.end("ok"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const others = acceptMore(server);
  const { port } = server.address() as AddressInfo;
  return { server, others, port };
}

test("connections that wait are accepted eight in a round", async () => {
  const { server, others, port } = await listen();
  let rounds = 0;
  const accepted: number[] = [];
  const count = () => {
    rounds++;
    if (accepted.length < 40) setImmediate(count);
  };
  server.on("connection", () => accepted.push(rounds));
  const clients = Array.from({ length: 40 }, () => connect(port, "127.0.0.1"));
  setImmediate(count);
  while (accepted.length < 40) await new Promise((resolve) => setImmediate(resolve));
  const most = Math.max(...accepted.map((round) => accepted.filter((other) => other === round).length));
  expect(most).toBe(8);
  for (const client of clients) client.destroy();
  await Promise.all([others.close(), new Promise((resolve) => server.close(resolve))]);
});

test("the port has one owner until the last answer was sent, and is free then", async () => {
  const { server, others, port } = await listen();
  const answers = Array.from({ length: 20 }, async () => {
    const [answer] = await once(request({ port, agent: false }).end(), "response");
    return answer.statusCode as number;
  });
  expect(await Promise.all(answers)).toEqual(Array.from({ length: 20 }, () => 200));
  const taken = createTcpServer().listen(port, "127.0.0.1");
  expect((await once(taken, "error"))[0]).toMatchObject({ code: "EADDRINUSE" });

  const order: string[] = [];
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  const closing = async () => {
    await Promise.all([others.close(), new Promise((done) => server.close(done))]);
    order.push("closed");
    resolve();
  };
  server.removeAllListeners("request").on("request", (_request, response) => {
    void closing();
    setTimeout(() => {
      order.push("answers");
      response.end("late");
    }, 20);
  });
  await once(request({ port, agent: false }).end(), "response");
  await closed;
  expect(order).toEqual(["answers", "closed"]);
  const next = createTcpServer().listen(port, "127.0.0.1");
  await once(next, "listening");
  next.close();
});
