import { afterAll, beforeAll, expect, test } from "vitest";
import type { Sandbox } from "../../sandboxes/sandbox.ts";
import { ServiceBench, sh } from "../../sandboxes/service-testing.ts";
import { loadSkills } from "./load.ts";

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
  const skills = await loadSkills(sandbox, { workingDir: "/tmp/p/sub", model: "anthropic/claude-x", plugins: ["/tmp/plug"] });
  const seen = Object.fromEntries(skills.map(({ name, type, content, source }) => [name, `${source} ${type} ${content}`]));
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
  expect((await loadSkills(sandbox, { workingDir: "/tmp/p/sub" })).map(({ name }) => name)).not.toContain("claude");
});

test("a folder that is not there has no skills, and a flood of files is bounded", async () => {
  expect(await loadSkills(sandbox, { workingDir: "/nowhere" })).toEqual([
    expect.objectContaining({ name: "mine" }),
    expect.anything(),
  ]);
  await sh(
    sandbox,
    "mkdir -p /tmp/f/.agents/skills; cd /tmp/f/.agents/skills; for i in $(seq 1000); do echo $i >$i.md; done; head -c 9000000 /dev/zero | tr '\\\\0' x >0.md",
  );
  expect((await loadSkills(sandbox, { workingDir: "/tmp/f" })).length).toBe(200);
});
