import { execFileSync } from "node:child_process";
import { afterEach, expect, test } from "vitest";
import { getEnvironment, hideVaultKey } from "./environment.ts";

afterEach(() => {
  delete process.env.SANDPIPER_VAULT_KEY;
});

test("a program that the process starts does not inherit the key of the vault, which stays readable", () => {
  const children = () => execFileSync("env", { encoding: "utf8" });
  process.env.SANDPIPER_VAULT_KEY = "the-key";
  expect(children()).toContain("the-key");
  hideVaultKey();
  hideVaultKey();
  expect(children()).not.toContain("the-key");
  expect(getEnvironment()).toMatchObject({ SANDPIPER_VAULT_KEY: "the-key", PATH: process.env.PATH });
});
