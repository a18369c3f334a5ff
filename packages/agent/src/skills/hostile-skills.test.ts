import { expect, test } from "vitest";
import { FrontMatterCache, FrontMatterReader } from "./front-matter.ts";
import { parseSkills } from "./library/files.ts";
import type { Skill } from "./skill.ts";
import { activateSkills } from "./triggers.ts";

/**
 * Skills come from repositories of strangers: they may not keep the server from its other users.
 */

function skillWith(name: string, triggers: string[]): Skill {
  return {
    name,
    type: "knowledge",
    content: "text",
    triggers,
    source: "project",
    description: null,
    location: null,
  };
}

test("slow front matter does not block the event loop", async () => {
  const yaml = ["[".repeat(1_990), "{".repeat(1_990), "]".repeat(1_990), "&a ".repeat(1_990)];
  const files = Array.from({ length: 20 }, (_, i) => ({
    path: `skills/${i}.md`,
    content: `---\n${yaml[i % 4]}\n---\nText ${i}`,
  }));
  let turns = 0;
  const counter = setInterval(() => turns++, 0);
  const skills = await parseSkills(files, "user");
  clearInterval(counter);
  expect(skills.length).toBe(20);
  expect(turns).toBeGreaterThan(1);
});

const bigYaml = (index: number, lines: number) =>
  `name: skill ${index}\n${Array.from({ length: lines }, (_, line) => `key${line}: [a, b]`).join("\n")}`;

test("200 skills with 16 KB of front matter each are read within the bound of a load", async () => {
  const files = Array.from({ length: 200 }, (_, i) => ({
    path: `skills/${i}.md`,
    content: `---\n${bigYaml(i, 1_000)}\n---\nText ${i}`,
  }));
  const began = process.cpuUsage();
  const skills = await parseSkills(files, "user");
  expect(skills.length).toBe(200);
  expect(skills.every(({ problem }) => problem?.startsWith("its front matter cannot be read"))).toBe(true);
  // A parser without a bound took 10 s and more.
  expect(process.cpuUsage(began).user / 1000).toBeLessThan(5_000);
});

test("keys that are nested maps do not count, however deep they are", () => {
  for (const key of ["? ", "[? ", "- ? ", "{? "])
    expect(new FrontMatterReader().split(`---\n${key.repeat(300)}\n---\nText`).broken).toBe(true);
});

test("front matter is parsed once, shares the bound of its load, and cannot be changed", () => {
  const cache = new FrontMatterCache();
  const texts = Array.from({ length: 30 }, (_, i) => `---\n${bigYaml(i, 300)}\n---\nText`);
  const load = () => {
    const reader = new FrontMatterReader(cache);
    return texts.map((text) => reader.split(text));
  };
  const countRead = (load: { broken: boolean }[]) => load.filter(({ broken }) => !broken).length;
  const [first, second, third] = [load(), load(), load()];
  expect(countRead(first)).toBeGreaterThan(5);
  expect([countRead(second), countRead(third)]).toEqual([countRead(first) * 2, 30]);
  expect(second[0]!.facts).toBe(first[0]!.facts);
  expect(Object.isFrozen(first[0]!.facts.key1)).toBe(true);
});

test("thousands of triggers and a long message that nearly contains them are matched quickly", () => {
  const near = Array.from({ length: 200 }, (_, skill) =>
    skillWith(
      `skill ${skill}`,
      Array.from({ length: 100 }, (_, i) => `${"a".repeat(i + 1)}b${skill}`),
    ),
  );
  for (const message of ["a".repeat(2_000_000), "ab ".repeat(500_000)]) {
    const begin = performance.now();
    expect(activateSkills(near, message, new Set()).names).toEqual([]);
    expect(performance.now() - begin).toBeLessThan(20_000);
  }
});

test("only the beginning and the end of a very long message are searched for triggers", () => {
  const skills = [skillWith("first", ["alpha"]), skillWith("last", ["omega"]), skillWith("none", ["middle"])];
  const filler = "word ".repeat(100_000);
  expect(activateSkills(skills, `alpha ${filler} middle ${filler} omega`, new Set()).names).toEqual([
    "first",
    "last",
  ]);
});
