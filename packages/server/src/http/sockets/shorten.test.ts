import fc from "fast-check";
import { expect, test } from "vitest";
import { fitFrame } from "./shorten.ts";

test("a frame that fits is unchanged", () => {
  const json = '{ "a" : "é" }';
  expect(fitFrame(json, Buffer.byteLength(json))).toBe(json);
});

test("long texts are cut in the middle, short ones and the structure stay", () => {
  const event = {
    id: "1",
    observation: { old_content: "a".repeat(5000), new_content: `start${"b".repeat(5000)}end` },
    n: [1, null],
  };
  const frame = JSON.parse(fitFrame(JSON.stringify(event), 4000)!);
  expect(frame).toMatchObject({ id: "1", n: [1, null] });
  expect(frame.observation.new_content).toMatch(/^startb+\n\[\d+ characters are left out\]\nb+end$/);
  expect(Object.keys(frame.observation)).toEqual(["old_content", "new_content"]);
});

test("an image is left out rather than broken", () => {
  const content = [
    { type: "image", image_urls: [`data:image/png;base64,${"A".repeat(5000)}`, "https://x.example/a.png"] },
  ];
  expect(JSON.parse(fitFrame(JSON.stringify({ content }), 2000)!).content[0].image_urls).toEqual([
    "https://x.example/a.png",
  ]);
});

test("a frame that is long by its structure cannot be made to fit", () => {
  expect(fitFrame(JSON.stringify({ list: Array.from({ length: 1000 }, (_, index) => index) }), 500)).toBe(
    undefined,
  );
});

test("every result fits and is JSON", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.string({ unit: "binary", maxLength: 3000 })), (value) => {
      const frame = fitFrame(JSON.stringify(value), 2000);
      if (frame === undefined) return;
      expect(Buffer.byteLength(frame)).toBeLessThanOrEqual(2000);
      expect(Object.keys(JSON.parse(frame)).length).toBe(Object.keys(value).length);
    }),
    { numRuns: 300 },
  );
});
