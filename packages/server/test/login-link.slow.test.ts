import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Chromium } from "./support/chromium.ts";
import { Command } from "./support/command.ts";

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

let base: string;
let server: Command;
let link: string;
const browsers: Chromium[] = [];

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-login-link-"));
  server = new Command(["serve"], { SANDPIPER_DATA: base, SANDPIPER_PORT: "0" });
  [, link = ""] = await server.says(/within ten minutes\): (http\S+)\n/);
});
afterAll(async () => {
  for (const browser of browsers) await browser.close();
  server?.signal("SIGTERM");
  await server?.exit;
  await rm(base, { recursive: true, force: true });
});

async function openBrowser(): Promise<Chromium> {
  const browser = await Chromium.start();
  browsers.push(browser);
  return browser;
}

test("the printed link logs one browser in; for another one it says that it was used", async () => {
  const address = new URL(link);
  expect(link).toMatch(/^http:\/\/[\w.:]+\/login#link=[\w-]{43}$/);
  const [first, second] = [await openBrowser(), await openBrowser()];
  await first.open(link);
  await first.says(/This browser is logged in as/);
  // What works once is in no history, and scripts cannot read the login.
  expect(await first.evaluate("location.pathname + location.hash")).toBe("/");
  expect(await first.evaluate("document.cookie")).toBe("");
  const status = 'fetch("/api/keys").then(({ status }) => status)';
  // The start page connects to nothing, so the request comes from a page that may.
  await first.open(`${address.origin}/docs`);
  expect(await first.evaluate(status)).toBe(200);

  await second.open(link);
  await second.says(/This login link was used before or has expired/);
  expect(await second.evaluate("location.pathname + location.hash")).toBe("/login");
  await second.sees('document.querySelector("input[name=key]")');
  // The same page takes an address that is pasted into it.
  await second.open(`${address.origin}/login`);
  await second.says(/API key/);
  await second.evaluate(`location.hash = "#link=${"x".repeat(43)}"`);
  await second.says(/This login link was used before/);
  for (const { problems } of [first, second])
    expect(problems.filter((text) => !/401|favicon/.test(text))).toEqual([]);
});
