import fc from "fast-check";
import { expect, test } from "vitest";
import { SecretMatcher } from "./secret-matcher.ts";
import { hideSecrets, SecretStream } from "./secret-stream.ts";

const token = "ghp_wJalrXUtnFEMI/K7MDENG+bPxRfiCYzEXAMPLE?&=é";
const by = "<hidden>";
const encodeEach = (encode: (code: number) => string) =>
  Array.from(token, (char) => encode(char.charCodeAt(0))).join("");
const encodeBytes = (encode: (byte: number) => string) => Array.from(Buffer.from(token), encode).join("");
const hide = (text: string, ...values: string[]) => hideSecrets(new SecretMatcher(values), text, by);

test.each([
  ["as it is", token],
  ["as JSON", JSON.stringify(`${token}`).slice(1, -1).replaceAll("/", "\\/").replaceAll("é", "\\u00e9")],
  ["as a URL", encodeURIComponent(token)],
  ["as a URL in lower case", encodeURIComponent(token).replaceAll(/%../g, (digits) => digits.toLowerCase())],
  [
    "as a URL of escapes alone",
    [...Buffer.from(token)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join(""),
  ],
  ["as HTML", token.replaceAll("&", "&amp;")],
  ["as hexadecimal digits", Buffer.from(token).toString("hex")],
  ["as capital hexadecimal digits", Buffer.from(token).toString("hex").toUpperCase()],
  ["folded", token.replaceAll(/.{7}/g, "$&\n")],
  ["in decimal entities", encodeEach((code) => `&#${code};`)],
  ["in hexadecimal entities without semicolons", encodeEach((code) => `&#X${code.toString(16)} `)],
  ["in entities of entities", encodeEach((code) => `&amp;#${code};`)],
  [
    "in named entities",
    token
      .replaceAll("&", "&amp;")
      .replaceAll("=", "&equals;")
      .replaceAll("_", "&lowbar;")
      .replaceAll("/", "&sol;")
      .replaceAll("+", "&plus;")
      .replaceAll("?", "&quest;"),
  ],
  ["with a colour for each character", token.replaceAll(/./g, "\u001b[38;5;12m$&\u001b[0m")],
  ["with colours in JSON", token.replaceAll(/./g, "\\u001b[31m$&\\u001b(B")],
  ["with colours of a shell script", token.replaceAll(/./g, "\\e[1m$&\\033[0m")],
  ["in octal escapes", encodeBytes((byte) => `\\${byte.toString(8).padStart(3, "0")}`)],
  ["in hexadecimal escapes", encodeEach((code) => `\\x{${code.toString(16)}}`)],
  ["in Unicode escapes", encodeEach((code) => `\\u{${code.toString(16)}}`)],
  ["in long Unicode escapes", encodeEach((code) => `\\U${code.toString(16).padStart(8, "0")}`)],
  ["in JSON in JSON", encodeEach((code) => `\\\\u${code.toString(16).padStart(4, "0")}`)],
  ["in a URL in a URL", encodeURIComponent(encodeURIComponent(token))],
  ["in the Unicode escapes of old URLs", encodeEach((code) => `%u${code.toString(16).padStart(4, "0")}`)],
  ["with invisible characters", token.replaceAll(/./g, "$&\u200b\u00ad")],
  ["as hexadecimal pairs", encodeBytes((byte) => `${byte.toString(16).padStart(2, "0")} `).trim()],
  ["as pairs with colons", encodeBytes((byte) => `:${byte.toString(16).padStart(2, "0")}`).slice(1)],
  ["as a list of bytes", [...Buffer.from(token)].join(", ")],
  ["as a list in C", encodeBytes((byte) => `, 0x${byte.toString(16).padStart(2, "0")}`).slice(4)],
  ["as octal bytes", encodeBytes((byte) => ` ${byte.toString(8).padStart(3, "0")}`).slice(1)],
])("a secret is found %s", (_, shown) => {
  expect(hide(`a ${shown} b`, token)).toMatch(
    /^a (?:0x)?(?:\x1b\[[0-9;]*m|\\u001b\[31m|\\e\[1m)?<hidden>\S{0,8} {1,2}b$/,
  );
});

test("a secret is found in base64 wherever it begins in the encoded bytes, in both alphabets, and broken into lines", () => {
  for (const before of ["", "x", "xy", "user:", "x-access-token:"]) {
    for (const alphabet of ["base64", "base64url"] as const) {
      const encoded = Buffer.from(`${before}${token}-tail`).toString(alphabet);
      const wrapped = encoded.replaceAll(/.{20}/g, "$&\r\n");
      for (const text of [encoded, wrapped, `Basic ${encoded}`]) {
        const shown = hide(text, token);
        expect(shown).toContain(by);
        expect(Buffer.from(shown.replaceAll(/<hidden>|Basic|\s/g, ""), "base64").toString()).not.toContain(
          token.slice(2, 6),
        );
      }
    }
  }
});

test("the lines of a key are found even if each has a prefix", () => {
  const lines = Array.from({ length: 5 }, (_, index) => `${index}MIIEvQIBADANBgkqhkiG9w0BAQEFAASC`.repeat(2));
  const key = ["-----BEGIN PRIVATE KEY-----", ...lines, "-----END PRIVATE KEY-----"].join("\n");
  const numbered = key
    .split("\n")
    .map((line, index) => `     ${index}\t${line}`)
    .join("\n");
  const shown = hide(numbered, key);
  for (const line of lines) expect(shown).not.toContain(line);
  expect(shown).toContain("     1\t<hidden>\n");
  expect(hide(JSON.stringify({ key }), key)).toBe(`{"key":"${by}"}`);
});

test("ordinary text is unchanged, and short values only match as a whole", () => {
  const text = "my pass 12 %41 \\n C:\\temp &amp; ####";
  expect(hide(text, "mypass12", "short", "")).toBe(text);
  expect(hide("my pass 12 my  pass 12", "my pass 12")).toBe(`${by} my  pass 12`);
  expect(hide("a \\nested b", "nested")).toBe(`a \\${by} b`);
});

test("overlapping or adjacent secrets are masked as one, and the surrounding text stays", () => {
  expect(hide("-abcdefghijkl-\n ", "abcdefgh", "efghijkl")).toBe(`-${by}-\n `);
  expect(hide("aaaaaaaaa", "aaaaaa")).toBe(by);
});

const letters = fc.constantFrom("a", "b", "%", "4", "1", "\n", "\\", "n");
const secrets = fc.array(fc.string({ unit: letters, minLength: 6, maxLength: 14 }), {
  minLength: 1,
  maxLength: 3,
});
const pieces = fc.array(fc.string({ unit: letters, maxLength: 20 }), { maxLength: 12 });

test("random secrets in random chunks are always masked", () => {
  fc.assert(
    fc.property(secrets, pieces, (values, parts) => {
      const matcher = new SecretMatcher(values);
      const stream = new SecretStream(matcher, "#");
      const shown = parts.map((part) => stream.write(part)).join("") + stream.end();
      for (const value of values) expect(shown).not.toContain(value);
      // At most the first characters of a secret that was cut are also shown.
      const whole = hideSecrets(matcher, parts.join(""), "#");
      expect(shown.replaceAll("#", "").length - whole.replaceAll("#", "").length).toBeLessThanOrEqual(
        3 * parts.length,
      );
    }),
    { numRuns: 2000 },
  );
});

test("a stream releases text that cannot start a secret, and drops released text", () => {
  const stream = new SecretStream(new SecretMatcher(["secret-one"]), by);
  expect(stream.write("hello ")).toBe("hello ");
  expect(stream.write("secr")).toBe("");
  expect(stream.write("etly s")).toBe("secretly s");
  expect(stream.write("ecret-one")).toBe(by);
  expect(stream.write(", se") + stream.end()).toBe(", se");
  const endless = new SecretStream(new SecretMatcher(["aaaaaa"]), by);
  const shown = Array.from({ length: 50 }, () => endless.write("a".repeat(1000))).join("");
  expect(shown + endless.end()).toBe(by);
});

test("a stream hides a part of a secret that another secret begins with, and shows what follows", () => {
  const stream = new SecretStream(new SecretMatcher(["abcdefgh", "efghijkl"]), by);
  expect(["abcdefgh", "i", "z"].map((piece) => stream.write(piece)).join("") + stream.end()).toBe(`${by}iz`);
});

test("a long secret that arrives one character at a time shows at most its first characters, and is one mask", () => {
  const long = Array.from({ length: 90 }, (_, index) => (index * 7919).toString(36)).join("");
  for (const patient of [false, true]) {
    const stream = new SecretStream(new SecretMatcher([long]), by, { patient });
    const shown = Array.from(`x ${long} y`, (char) => stream.write(char)).join("") + stream.end();
    expect(shown).toBe(`x ${patient ? "" : long.slice(0, 3)}${by} y`);
  }
  expect(hide(`x ${long.slice(0, 100)} y`, long)).not.toContain(long.slice(0, 50));
});

test("a secret that is split over two outputs appears in neither", () => {
  for (let cut = 1; cut < token.length; cut++) {
    const matcher = new SecretMatcher([token]);
    const sequence = new SecretStream(matcher, by);
    const first = sequence.output(matcher, `one ${token.slice(0, cut)}`, true);
    const second = sequence.output(matcher, `${token.slice(cut)} two`, false);
    expect(first).toBe(cut < 4 ? `one ${token.slice(0, cut)}` : `one ${by}`);
    expect(second).toBe(`${by} two`);
  }
  const matcher = new SecretMatcher([token]);
  const sequence = new SecretStream(matcher, by);
  expect(sequence.output(matcher, "a ghp_w", true)).toBe(`a ${by}`);
  expect(sequence.output(matcher, "rong", true)).toBe("rong");
});

test("a hundred secrets in a megabyte are found quickly, and text designed to be slow is masked", () => {
  const values = Array.from(
    { length: 100 },
    (_, index) => `${index.toString(36)}-${"kQ9".repeat(12)}-${index}`,
  );
  const matcher = new SecretMatcher(values);
  const line = 'const answer = compute("what is it", 42); // nothing to see %20 \\n here\n';
  const text = line.repeat(Math.ceil(2 ** 20 / line.length)) + values[7];
  matcher.ranges(text);
  const began = process.cpuUsage();
  expect(matcher.ranges(text)).toEqual([[text.length - values[7]!.length, text.length]]);
  // 10 ms on an idle machine.
  expect(process.cpuUsage(began).user / 1000).toBeLessThan(2_000);

  const hostile = new SecretMatcher(Array.from({ length: 200 }, (_, index) => `${"a".repeat(4000)}${index}`));
  const flood = "a".repeat(2 ** 20);
  const start = process.cpuUsage();
  expect(hostile.ranges(flood)).toEqual([[0, flood.length]]);
  hostile.openFrom(flood);
  expect(process.cpuUsage(start).user / 1000).toBeLessThan(20_000);
});

test("secrets that overlap, begin or repeat each other are hidden together, wherever a stream is divided", () => {
  const letters = (minLength: number, maxLength: number) =>
    fc.string({ unit: fc.constantFrom("a", "b", "X"), minLength, maxLength });
  const cases = fc.record({
    secret: letters(6, 100),
    others: fc.array(fc.tuple(fc.nat(80), letters(6, 12)), { maxLength: 3 }),
    parts: fc.array(fc.tuple(fc.nat(3), letters(0, 6)), { minLength: 1, maxLength: 6 }),
    size: fc.integer({ min: 1, max: 80 }),
  });
  fc.assert(
    fc.property(cases, ({ secret, others, parts, size }) => {
      const secrets = [secret, ...others.map(([kept, more]) => secret.slice(0, kept) + more)];
      const text = parts.map(([which, more]) => (secrets[which] ?? "") + more).join("");
      const shown = [...text];
      for (const one of secrets)
        for (let at = text.indexOf(one); at >= 0; at = text.indexOf(one, at + 1))
          shown.fill("", at, at + one.length);
      const matcher = new SecretMatcher(secrets);
      // The encodings of a secret may hide more than the secret itself.
      const isPart = (part: string) => part.length <= shown.join("").length;
      expect(isPart(hideSecrets(matcher, text, ""))).toBe(true);
      const stream = new SecretStream(matcher, "", { patient: true });
      let streamed = "";
      for (let at = 0; at < text.length; at += size) streamed += stream.write(text.slice(at, at + size));
      expect(isPart(streamed + stream.end())).toBe(true);
    }),
  );
});
