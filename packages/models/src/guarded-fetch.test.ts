import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { guardedFetch } from "./guarded-fetch.ts";

let server: Server;
afterEach(() => server.close());

async function serve(listener: RequestListener): Promise<string> {
  server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

test("an answer that does not end is cut at the limit", async () => {
  let gone = false;
  const url = await serve((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const more = () => {
      while (!gone && response.write(Buffer.alloc(65_536, "x")));
    };
    response.on("drain", more).on("close", () => {
      gone = true;
    });
    more();
  });
  const response = await guardedFetch(fetch, 1_000_000)(url);
  await expect(response.text()).rejects.toThrow(/longer than 1000000 bytes/);
  await expect.poll(() => gone).toBe(true);
});

test("a web page is refused at once", async () => {
  const url = await serve((_request, response) => {
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end("<h1>Welcome</h1>");
  });
  await expect(guardedFetch(fetch)(url)).rejects.toThrow(/web page.*llm_base_url/);
});

test("an error keeps its status and body, and a redirect is not followed", async () => {
  const url = await serve((request, response) => {
    if (request.url === "/moved") response.writeHead(302, { location: "/" }).end();
    else response.writeHead(429, { "retry-after": "3" }).end("slow down");
  });
  const refused = await guardedFetch(fetch)(url);
  expect([refused.status, refused.headers.get("retry-after"), await refused.text()]).toEqual([
    429,
    "3",
    "slow down",
  ]);
  expect((await guardedFetch(fetch)(`${url}moved`)).status).toBe(302);
});
