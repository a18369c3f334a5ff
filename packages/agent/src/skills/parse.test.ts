import { describe, expect, test } from "vitest";
import { parseSkill, readServers } from "./parse.ts";
import { skillBlocks } from "./prompt-text.ts";
import { enabledSkills, mergeSkills, type Skill } from "./skill.ts";
import { activateSkills, containsWord } from "./triggers.ts";

const read = (path: string, text: string) => parseSkill(path, text, "project");

describe("a skill file", () => {
  test("with triggers is knowledge, without them it always applies, SKILL.md is listed", () => {
    expect(
      read("/w/.openhands/microagents/docker.md", "---\ntriggers:\n- docker\n- Container\n---\nUse docker."),
    ).toMatchObject({
      ...{ name: "docker", type: "knowledge", content: "Use docker.", triggers: ["docker", "Container"] },
    });
    expect(read("/w/.openhands/skills/style.md", "Write well.")).toMatchObject({
      name: "style",
      type: "repo",
      triggers: [],
    });
    const skill = read(
      "/w/.agents/skills/pdf/SKILL.md",
      "---\nname: pdf-tools\ndescription: Reads PDFs\n---\nSteps.",
    );
    expect(skill).toMatchObject({
      name: "pdf-tools",
      type: "agentskills",
      description: "Reads PDFs",
      content: "Steps.",
    });
    expect(read("/w/.agents/skills/pdf/SKILL.md", "Steps.")).toMatchObject({
      name: "pdf",
      type: "agentskills",
    });
    expect(read("/w/AGENTS.md", "---\ntriggers: [x]\n---\nBe kind.")).toMatchObject({
      name: "agents",
      type: "repo",
      triggers: [],
    });
    expect(read("/w/t.md", "---\ninputs:\n- name: PR\n---\nReview it.")).toMatchObject({
      type: "knowledge",
      triggers: ["/t"],
    });
  });

  test("that is broken or hostile is harmless", () => {
    expect(read("/w/a.md", "---\ntriggers: [unclosed\n---\nText.")).toMatchObject({
      type: "repo",
      content: "Text.",
    });
    expect(read("/w/a.md", "---\nname: never closed\nText.")).toMatchObject({
      content: expect.stringContaining("never closed"),
    });
    const bomb = `---\na: &a [x,x,x,x,x,x,x,x,x]\n${"bcdefghi".replace(/./g, (key, at) => `${key}: &${key} [*${"abcdefgh"[at]},*${"abcdefgh"[at]}]\n`)}---\nText.`;
    expect(read("/w/a.md", bomb)).toMatchObject({ name: "a", content: "Text." });
    expect(read("/w/a.md", "---\nname: 7\ntriggers: {a: 1}\ndescription: [1]\n---\nText.")).toMatchObject({
      ...{ name: "a", type: "repo", description: null },
    });
    expect(read("/w/a.md", "x".repeat(1e6))?.content).toHaveLength(64 * 1024);
    expect(read("/w/a.md", "---\npaths: src/**, '*.md'\n---\nText.")).toMatchObject({
      paths: { globs: ["src/**", "'*.md'"] },
    });
    expect(read("/w/a.md", "---\nname: a\n---\n \n")).toBeUndefined();
  });
});

const skill = (change: Partial<Skill>): Skill => ({
  ...{
    name: "docker",
    type: "knowledge",
    content: "Use it.",
    triggers: ["docker"],
    source: "project",
    description: null,
  },
  location: "/w/docker.md",
  ...change,
});

test("a trigger matches as a whole word in any case, and each skill once", () => {
  expect(containsWord("please use Docker here", "docker")).toBe(true);
  expect(containsWord("dockerfile and xdocker, then docker.", "docker")).toBe(true);
  for (const text of ["dockerfile", "undocker", "docker2", "dockerä", ""])
    expect(containsWord(text, "docker")).toBe(false);
  expect(containsWord("do /review now", "/review")).toBe(true);
  const [first, second] = [skill({}), skill({ name: "compose", triggers: ["compose", "docker"] })];
  const all = activateSkills([first, second], "docker!", new Set());
  expect(all.names).toEqual(["docker", "compose"]);
  expect(all.content[0]?.text).toMatch(/^<EXTRA_INFO>[\s\S]*"docker"[\s\S]*Use it\.\n<\/EXTRA_INFO>$/);
  expect(activateSkills([first, second], "docker!", new Set(["docker"])).names).toEqual(["compose"]);
});

test("the first skill of a name wins, disabled skills are omitted, and the prompt contains always-on skills in full and lists the others", () => {
  const project = skill({ name: "a", type: "repo", content: "project", triggers: [] });
  const merged = mergeSkills(
    [project],
    [skill({ name: "a", content: "user" }), skill({ name: "b", type: "agentskills" })],
  );
  expect(merged.map(({ content }) => content)).toEqual(["project", "Use it."]);
  expect(enabledSkills(merged, ["a"]).map(({ name }) => name)).toEqual(["b"]);
  expect(enabledSkills(merged, null)).toHaveLength(2);
  const [always, list] = skillBlocks([...merged, skill({ name: "c", content: "not shown" })]);
  expect(always).toContain("project");
  expect(list).toContain("<name>b</name>");
  expect(`${always}${list}`).not.toContain("not shown");
  const long = skillBlocks([skill({ name: "long", type: "repo", content: "y".repeat(200_000) })]);
  expect(long[0]!.length).toBeLessThan(101_000);
});

test("MCP servers of a skill are a map by name, alone or below mcpServers, of a limited size", () => {
  const one = { one: { command: "x" } };
  expect(readServers(one)).toEqual(one);
  expect(readServers({ mcpServers: one })).toEqual(one);
  for (const value of [undefined, null, "x", [one], {}, { mcpServers: {} }, { a: "x".repeat(40_000) }])
    expect(readServers(value)).toBeUndefined();
});
