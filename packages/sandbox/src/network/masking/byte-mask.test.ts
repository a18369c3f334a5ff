import { once } from "node:events";
import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ByteMask, maskTexts } from "./byte-mask.ts";
import { Patterns } from "./patterns.ts";
import { SentSecrets } from "./sent-secrets.ts";
import { maskFrames } from "./websocket-frames.ts";

/** Without letters, whose forms in the other case are searched too. */
const digits = (minLength: number, maxLength: number) =>
  fc.array(fc.constantFrom("1", "2", "3"), { minLength, maxLength }).map((all) => all.join(""));

/** The text with stars in each place that a secret covers. */
function cover(text: string, secrets: readonly string[]): string {
  const shown = [...text];
  for (const secret of secrets)
    for (let at = text.indexOf(secret); at >= 0; at = text.indexOf(secret, at + 1))
      shown.fill("*", at, at + secret.length);
  return shown.join("");
}

test("secrets that overlap, begin or repeat each other are masked together, wherever a stream is divided", () => {
  const cases = fc.record({
    secret: digits(6, 40),
    others: fc.array(fc.tuple(fc.nat(10), digits(6, 12)), { maxLength: 3 }),
    parts: fc.array(fc.tuple(fc.nat(3), digits(0, 6)), { minLength: 1, maxLength: 6 }),
    size: fc.integer({ min: 1, max: 50 }),
  });
  fc.assert(
    fc.property(cases, ({ secret, others, parts, size }) => {
      const secrets = [secret, ...others.map(([kept, more]) => secret.slice(0, kept) + more)];
      const text = parts.map(([which, more]) => (secrets[which] ?? "") + more).join("");
      const patterns = [new Patterns(secrets)];
      const mask = new ByteMask(() => patterns);
      const shown: Buffer[] = [];
      for (let at = 0; at < text.length; at += size)
        shown.push(Buffer.from(mask.write(Buffer.from(text.slice(at, at + size)))));
      shown.push(mask.end());
      expect(Buffer.concat(shown).toString()).toBe(cover(text, secrets));
      expect(maskTexts([text, "", text], patterns)).toEqual([cover(text, secrets), "", cover(text, secrets)]);
    }),
  );
});

test("a value that is sent again and again among others stays masked", () => {
  const sent = new SentSecrets();
  const shown = (value: string) => maskTexts([`a ${value}`], [sent.patterns])[0];
  for (let index = 0; index < 1_000; index++) {
    sent.add("the-first-secret");
    sent.add(`secret-number-${index}`);
  }
  expect(shown("the-first-secret")).toBe(`a ${"*".repeat(16)}`);
  expect(shown("secret-number-999")).toBe(`a ${"*".repeat(17)}`);
  expect(shown("secret-number-5")).toBe("a secret-number-5");
});

const secrets = Array.from({ length: 200 }, (_, index) => `secret-${index}-${"x".repeat(index)}`);

/** Milliseconds that work takes, the least of five runs. */
function time(work: () => unknown): number {
  return Math.min(
    ...Array.from({ length: 5 }, () => {
      const began = performance.now();
      work();
      return performance.now() - began;
    }),
  );
}

test("4,000 header texts cost about as much with 200 secrets as with one", () => {
  const texts = Array.from({ length: 4_000 }, (_, index) => `x-header-${index}`);
  const [one, many] = [[new Patterns(secrets.slice(0, 1))], [new Patterns(secrets)]];
  expect(time(() => maskTexts(texts, many))).toBeLessThan(20 * time(() => maskTexts(texts, one)) + 5);
});

test("other work runs between the tiny frames that a server sends at once", async () => {
  const patterns = [new Patterns(secrets)];
  const stream = maskFrames(() => patterns);
  const frames = Buffer.concat(Array.from({ length: 20_000 }, () => Buffer.from([0x81, 1, 0x61])));
  let [rounds, bytes] = [0, 0];
  stream.on("data", (piece: Buffer) => {
    bytes += piece.length;
  });
  const ended = once(stream, "end").then(() => false);
  stream.end(frames);
  while (await Promise.race([ended, setImmediate(true)])) rounds++;
  expect(bytes).toBe(frames.length);
  expect(rounds).toBeGreaterThan(5);
});
