import { afterAll, beforeAll, expect, test } from "vitest";
import { navigation, PreviewBench } from "../../../test/support/preview.ts";

let bench: PreviewBench;
beforeAll(async () => {
  bench = await PreviewBench.start();
});
afterAll(() => bench.close());

test("a page by path says why it stays blank, and where the app works; nothing else is changed", async () => {
  await bench.app(8011, (request, response) => {
    const type = request.url === "/data" ? "application/json" : "text/html; charset=utf-8";
    const page = '<!doctype html><script src="/assets/a.js"></script>';
    response.writeHead(200, { "content-type": type, "content-length": page.length }).end(page);
  });
  const path = await bench.pathSession(8011);
  const headers = { ...navigation, "accept-encoding": "gzip" };
  const page = await bench.call(path, { key: null, headers });
  expect(page.text).toMatch(/^<!doctype html><script src="\/assets\/a\.js"><\/script><script>/);
  expect(page.text).toContain("which a preview by path does not serve");
  expect(page.text).toContain(`http://${bench.host(8011)}/?sandpiper_token=`);
  expect(page.headers["content-length"]).toBeUndefined();
  const fetched = await bench.call(path, { key: null, headers: { origin: "null" } });
  expect(fetched.text).not.toContain("a preview by path");
  const data = await bench.call(`${path}data`, { key: null, headers });
  expect(data.text).not.toContain("a preview by path");
});
