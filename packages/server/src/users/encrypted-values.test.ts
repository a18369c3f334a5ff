import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createVault } from "../store/vault.ts";
import { EncryptedValues } from "./encrypted-values.ts";

const sealed = new EncryptedValues(createVault(randomBytes(32)));

test("a value is decrypted for the user for whom it was encrypted, anywhere in a body", () => {
  const token = sealed.encrypt("ann", "sk-secret");
  expect(token).not.toContain("secret");
  expect(token).toMatch(/^gAAAAA[A-Za-z0-9_-]+$/);
  expect(sealed.decrypt("ann", token.replace("gAAAAAsealed-v1-", "sealed-v1:"))).toBe("sk-secret");
  expect(sealed.decrypt("ann", "gAAAAABl-a-token-of-the-user")).toBe("gAAAAABl-a-token-of-the-user");
  expect(sealed.encrypt("ann", "sk-secret")).not.toBe(token);
  expect(sealed.decrypt("ann", token)).toBe("sk-secret");
  expect(sealed.decrypt("ann", "a plain text")).toBe("a plain text");
  const body = {
    agent: { llm: { api_key: token, retries: 3, stream: null } },
    list: [token, true],
    text: "sealed",
  };
  expect(sealed.decryptAll("ann", body)).toEqual({
    agent: { llm: { api_key: "sk-secret", retries: 3, stream: null } },
    list: ["sk-secret", true],
    text: "sealed",
  });
});

test("a value is not decrypted for other users, on another server, or when it was changed", () => {
  const token = sealed.encrypt("ann", "sk-secret");
  const other = new EncryptedValues(createVault(randomBytes(32)));
  const changed = token[40] === "A" ? "B" : "A";
  for (const open of [
    () => sealed.decrypt("bob", token),
    () => other.decrypt("ann", token),
    () => sealed.decrypt("ann", `${token.slice(0, 40)}${changed}${token.slice(41)}`),
    () => sealed.decrypt("ann", token.slice(0, -8)),
    () => sealed.decrypt("ann", "gAAAAAsealed-v1-"),
    () => sealed.decrypt("ann", "sealed-v1:"),
    () => sealed.decryptAll("ann", { deep: [{ er: "sealed-v1:%%%" }] }),
  ]) {
    expect(open).toThrow("An encrypted secret cannot be opened");
  }
});
