import { once } from "node:events";
import { request } from "node:http";
import { expect, test } from "vitest";
import { Client } from "../client.ts";
import { Front } from "./front.ts";

test("a body without an end for the one-time token is answered, and not kept", async () => {
  const files = new Map([["/index.html", Buffer.from("<head></head>")]]);
  const client = new Client("http://127.0.0.1:9", "key");
  const front = await Front.start({ files, client, origins: [], port: 0 });
  try {
    const sending = request(`${front.url}/open`, { method: "POST" });
    const [answer] = await Promise.all([once(sending, "response"), sending.write("x".repeat(1_000))]);
    expect(answer[0].statusCode).toBe(401);
    sending.destroy();
  } finally {
    await front.close();
  }
});
