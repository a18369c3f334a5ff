import { maskText } from "@sandpiper/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { SecretMask } from "./mask.ts";
import { hideSecrets } from "./secret-stream.ts";

function maskOf(...secrets: string[]): SecretMask {
  const mask = new SecretMask();
  for (const secret of secrets) mask.registerSecret(secret);
  return mask;
}

test("every occurrence of a secret is replaced, and other text is unchanged", () => {
  expect(maskOf("hunter2-key").mask("a hunter2-key b hunter2-keyhunter2-key c")).toBe(
    `a ${maskText} b ${maskText} c`,
  );
  expect(maskOf().mask("nothing to hide")).toBe("nothing to hide");
});

test("secrets that overlap or contain each other leave nothing of either", () => {
  expect(maskOf("abcdefgh", "efghijkl").mask("-abcdefghijkl-")).toBe(`-${maskText}-`);
  expect(maskOf("abcdefgh", "xabcdefghx").mask("-xabcdefghx-abcdefgh")).toBe(`-${maskText}-${maskText}`);
  expect(maskOf("aaaaaa").mask("aaaaaaaaa")).toBe(maskText);
});

test("a secret is found in JSON and URL encoding", () => {
  const mask = maskOf('quote"back\\slash', "sp ace/and+more");
  expect(mask.mask(JSON.stringify({ key: 'quote"back\\slash' }))).toBe(`{"key":"${maskText}"}`);
  expect(mask.mask(`https://x/?k=${encodeURIComponent("sp ace/and+more")}`)).toBe(`https://x/?k=${maskText}`);
});

test("very short values are not masked, because they would mask ordinary text", () => {
  expect(maskOf("a", "", "12345").mask("a 12345")).toBe("a 12345");
});

test("random secrets in random text are always masked", () => {
  const letters = fc.constantFrom("a", "b", "c");
  const secret = fc.string({ unit: letters, minLength: 6, maxLength: 9 });
  fc.assert(
    fc.property(
      fc.array(secret, { minLength: 1, maxLength: 3 }),
      fc.string({ unit: letters, maxLength: 60 }),
      (secrets, text) => {
        const shown = maskOf(...secrets).mask(text);
        for (const value of secrets) expect(shown).not.toContain(value);
      },
    ),
    { numRuns: 1000 },
  );
});

test("too many values are dropped in time, the oldest first, without filling the memory or exposing values of other users", () => {
  const mask = new SecretMask({ maxCharacters: 4 * 1_100 });
  mask.registerSecret("key-of-the-operator");
  mask.registerSecret("secret-of-ann", "ann");
  mask.registerSecret("the-first-one", "bob");
  mask.registerSecret("the-second-one", "bob");
  for (let index = 0; index < 20; index++) {
    mask.registerSecret(`filler-${index}-${"x".repeat(10)}`, "bob");
    mask.registerSecret("the-first-one", "bob");
  }
  expect(mask.mask("the-first-one the-second-one")).toBe("********** the-second-one");
  expect(mask.mask("key-of-the-operator secret-of-ann")).toBe("********** **********");
  mask.registerSecret("y".repeat(4000), "bob");
  expect(mask.mask(`${"y".repeat(4000)} filler-0-${"x".repeat(10)}`)).toBe(
    `********** filler-0-${"x".repeat(10)}`,
  );
});

test("an owner's texts mask only the owner's and the operator's secrets and keys, and no placeholder for a missing key", () => {
  const mask = new SecretMask();
  mask.registerSecret("key-of-the-operator-1");
  mask.registerSecret("production", "ann");
  mask.registerKey("ollama", "ann");
  mask.registerKey("sk-key-of-ann", "ann");
  mask.registerSecret("secret-of-bob", "bob");
  const hide = (text: string) => hideSecrets(mask.matcher("ann"), text, "#");
  expect(hide("key-of-the-operator-1 production ollama sk-key-of-ann secret-of-bob")).toBe(
    "# # ollama # secret-of-bob",
  );
  expect(mask.mask("ollama sk-key-of-ann")).toBe("********** **********");
  const before = mask.matcher("ann");
  expect(mask.matcher("ann")).toBe(before);
  mask.registerKey("sk-another-key-of-ann", "ann");
  expect(hide("sk-another-key-of-ann")).toBe("#");
});
