import { loadSkills } from "@sandpiper/agent/skills/load";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { Behaviour } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ProjectBehaviours, type UsedParts } from "../../src/conversations/project/behaviours.ts";
import type { FoundBehaviour } from "../../src/users/api.ts";
import { ServiceBench, sh } from "../support/sandbox-service.ts";

/** What counts as behaviour of hostile folders, in a real sandbox. */

let bench: ServiceBench;
let sandbox: Sandbox;
let recorded: FoundBehaviour[] = [];
const acceptances = {
  async record(found: FoundBehaviour) {
    recorded.push(found);
    return undefined as Behaviour | undefined;
  },
};
const behaviours = new ProjectBehaviours({ acceptances });

beforeAll(async () => {
  bench = await new ServiceBench().open();
  const service = await bench.serve();
  sandbox = await service.running((await service.create("me")).id);
});
afterAll(() => bench.end());

const place = (workingDir: string, plugins: string[] = []) => {
  return { userId: "me", sandboxId: "s", workingDir, plugins };
};
async function find(workingDir: string, { plugins = [] as string[], used = {} as UsedParts } = {}) {
  recorded = [];
  await behaviours.find(place(workingDir, plugins), sandbox, used);
  return recorded[0]!;
}
const texts = ({ parts }: FoundBehaviour) => parts.map(({ kind, text }) => `${kind} ${text}`);

test("a skill that another one hides for some models counts, and so does the last of many", async () => {
  await sh(
    sandbox,
    `mkdir -p /tmp/a/.agents/skills/claude && cd /tmp/a && echo Text >CLAUDE.md && echo Text >GEMINI.md
printf -- '---\\ndescription: c\\n---\\n!\`hidden\`' >.agents/skills/claude/SKILL.md
for n in $(seq 100 298); do echo text >.agents/skills/$n.md; done
mkdir .agents/skills/zz && printf -- '---\\ndescription: c\\n---\\n!\`last\`' >.agents/skills/zz/SKILL.md`,
  );
  const used = await loadSkills(sandbox, { workingDir: "/tmp/a", model: "openai/x" });
  expect(used.map(({ name }) => name)).toContain("claude");
  expect(texts(await find("/tmp/a")).toSorted()).toEqual(["skill_command hidden", "skill_command last"]);
});

test("what was read before the files changed counts, too", async () => {
  await sh(sandbox, "mkdir -p /tmp/b/.openhands && echo true >/tmp/b/.openhands/setup.sh");
  const agent = {
    name: "lax",
    description: "",
    systemPrompt: "Do it.",
    permissionMode: "never_confirm" as const,
  };
  expect(texts(await find("/tmp/b/", { used: { agents: [agent] } }))).toEqual([
    "setup_script true\n",
    'sub_agent {"permission_mode":"never_confirm"}\nDo it.',
  ]);
  recorded = [];
  const record = await behaviours.findFirst(place("/tmp/b"), sandbox);
  await record({});
  expect(recorded).toHaveLength(1);
  await record({ servers: { late: { command: "x" } } });
  expect(texts(recorded[1]!)).toEqual(["setup_script true\n", 'mcp_server late: {"command":"x"}']);
});

test("the folder's own files do not say where it comes from", async () => {
  await sh(
    sandbox,
    `mkdir -p /tmp/c/inner/.openhands && cd /tmp/c && git init -q && git remote add origin https://trusted.example/a/b
cd inner && echo true >.openhands/setup.sh && mkdir objects refs && echo 'ref: refs/heads/main' >HEAD
printf '[core]\\nbare = true\\n[remote "origin"]\\nurl = https://trusted.example/a/b\\n' >config`,
  );
  expect((await find("/tmp/c/inner")).origin).toBeUndefined();
});

test("a script of a plugin counts by its content, however the plugin names it", async () => {
  await sh(
    sandbox,
    `mkdir -p /tmp/w /tmp/plug/hooks && cd /tmp/plug && echo one >guard && ln -s guard link
echo '{"Stop":[{"hooks":[{"command":"sh \${CLAUDE_PLUGIN_ROOT}/link"}]}]}' >hooks/hooks.json`,
  );
  const first = texts(await find("/tmp/w", { plugins: ["/tmp/plug"] }));
  await sh(sandbox, "echo two >/tmp/plug/guard");
  const second = texts(await find("/tmp/w", { plugins: ["/tmp/plug"] }));
  expect(first).toHaveLength(2);
  expect([second[0], second[1]?.slice(0, 11)]).toEqual([first[0], "file sha256"]);
  expect(second[1]).not.toBe(first[1]);
});

test("a change of a file that a named file names counts, and so on", async () => {
  await sh(
    sandbox,
    `mkdir -p /tmp/e/.openhands /tmp/e/tools/py && cd /tmp/e && echo 'sh tools/one.sh' >.openhands/setup.sh
echo '. "$(dirname "$0")/two"' >tools/one.sh && echo 'python3 tools/py/main.py' >tools/two
echo 'from helper import x' >tools/py/main.py && echo 'x = 1' >tools/py/helper.py && echo y >tools/py/other.py`,
  );
  const first = (await find("/tmp/e")).parts;
  expect(first.map(({ source }) => source)).toEqual([
    ".openhands/setup.sh",
    "tools/one.sh",
    "tools/two",
    "tools/py/main.py",
    "tools/py/helper.py",
  ]);
  await sh(sandbox, "echo 'x = 2' >/tmp/e/tools/py/helper.py; echo z >/tmp/e/tools/py/other.py");
  const second = (await find("/tmp/e")).parts;
  expect(second.slice(0, 4)).toEqual(first.slice(0, 4));
  expect(second[4]).not.toEqual(first[4]);
  await sh(
    sandbox,
    `mkdir -p /tmp/g/.openhands /tmp/g/setup.d && cd /tmp/g && echo 'for f in setup.d/*; do sh "$f"; done' >.openhands/setup.sh
cd setup.d && echo 1 >a.sh && echo 2 >b && echo 3 >text.md && echo 4 >../c.sh`,
  );
  const sources = (await find("/tmp/g")).parts.map(({ source }) => source);
  expect(sources).toEqual([".openhands/setup.sh", "setup.d/a.sh", "setup.d/b"]);
  await sh(sandbox, "cd /tmp/g/setup.d && for n in $(seq 100); do echo $n >$n.sh; done");
  expect(texts(await find("/tmp/g")).at(-1)).toMatch(/too many files are named to compare$/);
  // An endless chain ends, and is never the same twice.
  await sh(
    sandbox,
    `mkdir -p /tmp/f/.openhands && cd /tmp/f && echo 'sh c1.sh' >.openhands/setup.sh
for n in $(seq 9); do echo "sh c$((n + 1)).sh" >c$n.sh; done; echo 'sh c1.sh' >c10.sh`,
  );
  expect(texts(await find("/tmp/f")).at(-1)).toMatch(/too many files are named to compare$/);
});

test("what is too much to compare is never the same twice", async () => {
  await sh(
    sandbox,
    `mkdir -p /tmp/d/.openhands/t && cd /tmp/d && head -c 270000 /dev/zero | tr '\\0' '#' >long.sh
echo '. ./long.sh' >.openhands/setup.sh`,
  );
  const both = [await find("/tmp/d"), await find("/tmp/d")].map((found) => texts(found).at(-1));
  expect(both[0]).toMatch(/^file [0-9a-f-]{36}: it is too long to compare$/);
  expect(both[1]).not.toBe(both[0]);
  await sh(
    sandbox,
    `cd /tmp/d && for n in $(seq 40); do head -c 250000 /dev/zero >many$n.sh; done
echo $(seq -f 'many%g.sh' 40) >.openhands/setup.sh`,
  );
  expect(texts(await find("/tmp/d")).at(-1)).toMatch(/too many files are named to compare$/);
});
