import { execFileSync } from "node:child_process";
import { afterEach, expect, test } from "vitest";
import { getEnvironment, hideSecrets } from "./environment.ts";

afterEach(() => {
  delete process.env.SANDPIPER_VAULT_KEY;
  delete process.env.SANDPIPER_DATABASE_URL;
});

test("a program that the process starts inherits neither the key of the vault nor the address of the database, which stay readable", () => {
  const children = () => execFileSync("env", { encoding: "utf8" });
  process.env.SANDPIPER_VAULT_KEY = "the-key";
  process.env.SANDPIPER_DATABASE_URL = "postgres://the-address/db";
  expect(children()).toContain("the-key");
  hideSecrets();
  hideSecrets();
  expect(children()).not.toMatch(/the-key|the-address/);
  expect(getEnvironment()).toMatchObject({
    SANDPIPER_VAULT_KEY: "the-key",
    SANDPIPER_DATABASE_URL: "postgres://the-address/db",
    PATH: process.env.PATH,
  });
});
