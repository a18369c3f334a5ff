import { loadProject, loadSkills } from "@sandpiper/agent/skills/load";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ServiceBench, sh } from "../support/sandbox-service.ts";

let bench: ServiceBench;
let sandbox: Sandbox;

beforeAll(async () => {
  bench = await new ServiceBench().open();
  const service = await bench.serve();
  sandbox = await service.running((await service.create("me")).id);
});
afterAll(() => bench.end());

test("skills come from the project, its git root, plugins and the home, the nearest first", async () => {
  await sh(
    sandbox,
    `mkdir -p /tmp/p/.git /tmp/p/sub/.agents/skills/pdf/scripts /tmp/p/sub/.openhands/microagents /tmp/p/.openhands/skills /tmp/plug/skills/x ~/.agents/skills
cd /tmp/p/sub && echo 'Be kind.' >AGENTS.md && echo Claude >CLAUDE.md && echo Gemini >GEMINI.md
printf -- '---\\nname: pdf\\ndescription: d\\n---\\nSteps' >.agents/skills/pdf/SKILL.md && echo part >.agents/skills/pdf/notes.md && echo r >.openhands/microagents/README.md
printf -- '---\\ntriggers:\\n- docker\\n---\\nnear' >.openhands/microagents/docker.md
printf -- '---\\ntriggers:\\n- docker\\n---\\nfar' >../.openhands/skills/docker.md && echo root >../.cursorrules
mkfifo .openhands/microagents/pipe.md; ln -s /dev/zero .openhands/microagents/zero.md; ln -s loop.md .openhands/microagents/loop.md
echo odd >".openhands/microagents/odd
name 5 .md"
printf plugged >/tmp/plug/skills/x/SKILL.md; printf mine >~/.agents/skills/mine.md; echo again >~/.agents/skills/docker.md`,
  );
  const skills = await loadSkills(sandbox, {
    workingDir: "/tmp/p/sub",
    model: "anthropic/claude-x",
    plugins: ["/tmp/plug"],
  });
  const seen = Object.fromEntries(
    skills.map(({ name, type, content, source }) => [name, `${source} ${type} ${content}`]),
  );
  expect(seen).toEqual({
    agents: "project repo Be kind.",
    claude: "project repo Claude",
    pdf: "project agentskills Steps",
    docker: "project knowledge near",
    "odd\nname 5 ": "project repo odd",
    cursorrules: "project repo root",
    x: "project agentskills plugged",
    mine: "user repo mine",
  });
  expect(skills.find(({ name }) => name === "pdf")?.location).toBe("/tmp/p/sub/.agents/skills/pdf/SKILL.md");
  expect((await loadSkills(sandbox, { workingDir: "/tmp/p/sub" })).map(({ name }) => name)).not.toContain(
    "claude",
  );
});

test("a missing folder has no skills, and a flood of files is limited", async () => {
  expect(await loadSkills(sandbox, { workingDir: "/nowhere" })).toEqual([
    expect.objectContaining({ name: "mine" }),
    expect.anything(),
  ]);
  await sh(
    sandbox,
    "mkdir -p /tmp/f/.agents/skills; cd /tmp/f/.agents/skills; for i in $(seq 1000); do echo $i >$i.md; done; head -c 9000000 /dev/zero | tr '\\0' x >0.md",
  );
  expect((await loadSkills(sandbox, { workingDir: "/tmp/f" })).length).toBe(200);
});

test("files in subfolders become path rules, plugin commands run by name, and unusable files are reported", async () => {
  await sh(
    sandbox,
    `mkdir -p /tmp/n/.git /tmp/n/a/b /tmp/n/node_modules/x /tmp/n/.agents/skills /tmp/cmd/commands && cd /tmp/n
echo top >AGENTS.md; echo low >a/b/AGENTS.md; echo no >node_modules/x/AGENTS.md; echo c >a/CLAUDE.md; ln -s /tmp/n a/loop
printf -- '---\\npaths: "*.ts"\\n---\\nrule' >.agents/skills/r.md; printf -- '---\\nx: [\\n---\\nbad' >.agents/skills/bad.md
head -c 10000000 /dev/zero | tr '\\0' y >.cursorrules; echo go >/tmp/cmd/commands/go.md`,
  );
  const { skills, problems } = await loadProject(sandbox, { workingDir: "/tmp/n", plugins: ["/tmp/cmd"] });
  const byName = new Map(skills.map((skill) => [skill.name, skill]));
  expect(byName.get("a/b/AGENTS.md")).toMatchObject({
    content: "low",
    paths: { base: "/tmp/n/a/b", globs: ["**"] },
  });
  expect(byName.get("r")).toMatchObject({ paths: { base: "/tmp/n", globs: ["*.ts"] } });
  expect(byName.get("go")).toMatchObject({ type: "knowledge", triggers: ["/go"] });
  expect(byName.get("agents")).toMatchObject({ type: "repo", content: "top" });
  expect([...byName.keys()].filter((name) => /node_modules|CLAUDE|loop/.test(name))).toEqual([]);
  expect(problems).toEqual([
    "/tmp/n/.cursorrules: it is longer than 64 KiB, and the rest is left out.",
    "/tmp/n/.agents/skills/bad.md: its front matter cannot be read, and does not count.",
  ]);
});

test("binary files are skipped, and broken front matter causes a limited number of warnings", async () => {
  const broken = {
    "open.md": "---\\nname: open\\nText",
    "kinds.md": "---\\nname: [a]\\ntriggers: 7\\npaths: [{}]\\nmcp_tools: []\\n---\\nText",
    "rule.md": "---\\nText below a rule",
    "red.md": "\\033[31mred\\001 \\377 end",
  };
  const files = Object.entries(broken).map(([name, text]) => `printf -- '${text}' >${name}`);
  await sh(
    sandbox,
    `mkdir -p /tmp/b/.agents/skills/bin && cd /tmp/b/.agents/skills && ${files.join(" && ")} && printf 'a\\0b' >bin/SKILL.md && mkfifo pipe.md`,
  );
  const { skills, problems } = await loadProject(sandbox, { workingDir: "/tmp/b" });
  expect(problems.toSorted()).toEqual([
    "/tmp/b/.agents/skills/bin/SKILL.md: it is not text, and is left out.",
    "/tmp/b/.agents/skills/kinds.md: of its front matter name, triggers, paths, mcp_tools cannot be used.",
    "/tmp/b/.agents/skills/open.md: its front matter cannot be read, and does not count.",
  ]);
  const texts = Object.fromEntries(skills.map(({ name, content }) => [name, content]));
  expect(texts).toMatchObject({
    kinds: "Text",
    open: expect.stringContaining("Text"),
    red: "[31mred \ufffd end",
  });
  expect(texts).not.toHaveProperty("bin");
  await sh(
    sandbox,
    "cd /tmp/b/.agents/skills && for i in $(seq 30); do printf -- '---\\nx: [\\n---\\nbad' >x$i.md; done",
  );
  const many = (await loadProject(sandbox, { workingDir: "/tmp/b" })).problems;
  expect(many).toHaveLength(11);
  expect(many[10]).toBe("23 more files of the project's skills and rules are not as they should be.");
});
