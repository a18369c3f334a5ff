import { expect, test } from "vitest";
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
  const yaml = ["[".repeat(16_000), "{".repeat(16_000), '"'.repeat(16_000), "&a ".repeat(5_000)];
  const files = Array.from({ length: 20 }, (_, i) => ({
    path: `skills/${i}.md`,
    content: `---\n${yaml[i % 4]}\n---\nText ${i}`,
  }));
  let turns = 0;
  const counter = setInterval(() => turns++, 0);
  const skills = await parseSkills(files, "user");
  clearInterval(counter);
  expect(skills.length).toBe(20);
  expect(turns).toBeGreaterThan(5);
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
