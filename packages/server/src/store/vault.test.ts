import { randomBytes } from "node:crypto";
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { temporaryFolder } from "../../test/support/store.ts";
import { createVault, openVault } from "./vault.ts";

let dir: string;
let remove: () => void;
let keyFile: string;
beforeEach(() => {
  ({ dir, remove } = temporaryFolder());
  keyFile = join(dir, "vault.key");
});
afterEach(() => remove());

test("any text can be decrypted with its context, and no two ciphertexts are equal", () => {
  const vault = createVault(randomBytes(32));
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.string(), (text, place) => {
      const sealed = vault.encrypt(text, place);
      expect(vault.decrypt(sealed, place)).toBe(text);
      expect(Buffer.from(vault.encrypt(text, place)).equals(sealed)).toBe(false);
    }),
  );
});

test("a changed byte, a truncation, another context or another key causes an error, never garbage", () => {
  const vault = createVault(randomBytes(32));
  const sealed = vault.encrypt("a secret", "settings:default");
  const failure = expect.objectContaining({
    code: "ConfigInvalid",
    message: expect.stringContaining("cannot be opened"),
  });
  for (let index = 0; index < sealed.length; index++) {
    const changed = Uint8Array.from(sealed);
    changed[index]! ^= 1;
    expect(() => vault.decrypt(changed, "settings:default")).toThrow(failure);
    expect(() => vault.decrypt(sealed.subarray(0, index), "settings:default")).toThrow(failure);
  }
  expect(() => vault.decrypt(sealed, "settings:other")).toThrow(failure);
  expect(() => createVault(randomBytes(32)).decrypt(sealed, "settings:default")).toThrow(failure);
});

test("the key file is created once, with mode 0600, and reused", async () => {
  const umask = process.umask(0);
  const sealed = (await openVault(keyFile, { create: true })).encrypt("text", "place");
  process.umask(umask);
  expect(statSync(keyFile).mode & 0o777).toBe(0o600);
  expect(statSync(keyFile).size).toBe(32);
  expect((await openVault(keyFile, { create: true })).decrypt(sealed, "place")).toBe("text");
  expect((await openVault(keyFile, { create: false })).decrypt(sealed, "place")).toBe("text");
});

test("processes that start at the same moment agree on one key and leave no other files", async () => {
  const vaults = await Promise.all(Array.from({ length: 20 }, () => openVault(keyFile, { create: true })));
  const sealed = vaults[0]!.encrypt("text", "place");
  for (const vault of vaults) expect(vault.decrypt(sealed, "place")).toBe("text");
  expect(readdirSync(dir)).toEqual(["vault.key"]);
});

test("a key file that is missing, open to other users or of a wrong size is refused and not changed", async () => {
  const refused = (sentence: string) =>
    expect(openVault(keyFile, { create: false })).rejects.toMatchObject({
      code: "ConfigInvalid",
      message: expect.stringContaining(sentence),
    });
  await refused(`${keyFile} is missing`);
  expect(readdirSync(dir)).toEqual([]);
  for (const size of [0, 31, 33]) {
    writeFileSync(keyFile, Buffer.alloc(size, 7), { mode: 0o600 });
    await refused(`has ${size} bytes instead of 32`);
    await expect(openVault(keyFile, { create: true })).rejects.toMatchObject({ code: "ConfigInvalid" });
    expect(readFileSync(keyFile)).toEqual(Buffer.alloc(size, 7));
  }
  writeFileSync(keyFile, randomBytes(32));
  for (const mode of [0o640, 0o604, 0o644]) {
    chmodSync(keyFile, mode);
    await refused(`(mode 0${mode.toString(8)}): close it with chmod 600`);
  }
});
