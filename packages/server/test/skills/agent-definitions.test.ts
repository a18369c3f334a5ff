import { loadAgentDefinitions, parseAgentDefinition } from "@sandpiper/agent/skills/agent-definitions";
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

test("definitions come from the project, plugins and the home, the nearest first", async () => {
  await sh(
    sandbox,
    `mkdir -p /tmp/a/.git /tmp/a/sub/.agents/agents /tmp/a/.openhands/agents /tmp/plug/agents ~/.openhands/agents
cd /tmp/a/sub/.agents/agents && printf -- '---\\nname: tester\\ndescription: Runs tests.\\ntools: [terminal, grep]\\nmodel: fast\\npermission_mode: always_confirm\\nmax_iteration_per_run: 7\\n---\\nRun them.' >t.md
printf -- '---\\nname: tester\\n---\\nfar' >/tmp/a/.openhands/agents/x.md; printf 'Read only.' >/tmp/a/.openhands/agents/reader.md
printf -- '---\\ntools: grep, glob\\nmodel: inherit\\n---\\nPlugged' >/tmp/plug/agents/plugged.md; printf -- '---\\ncolor: teal\\n---\\nmine' >~/.openhands/agents/mine.md
printf -- '---\\nname: "../b"\\n---\\nodd' >~/.openhands/agents/odd.md; printf -- '---\\n: [\\n---\\nbroken' >~/.openhands/agents/broken.md; : >~/.openhands/agents/empty.md`,
  );
  const reported: string[] = [];
  const report = (sentence: string) => void reported.push(sentence.replace(/^.*\//, ""));
  const found = await loadAgentDefinitions(sandbox, {
    workingDir: "/tmp/a/sub",
    plugins: ["/tmp/plug"],
    report,
  });
  expect(reported.toSorted()).toEqual([
    "broken.md: its front matter cannot be read, and does not count.",
    "empty.md: it has no instructions below its front matter, and describes no sub-agent.",
    "odd.md: its name has other characters than letters, digits and _.:-, so there is no such sub-agent.",
  ]);
  const tester = {
    name: "tester",
    description: "Runs tests.",
    systemPrompt: "Run them.",
    tools: ["terminal", "grep"],
  };
  const byName = found.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  expect(byName.map(({ path }) => path?.replace(/^.*[/](?=[^/]+[/]agents)/, ""))).toEqual(
    ["broken.md", "mine.md", "plugged.md", "reader.md", "t.md"].map((name, index) =>
      index === 2 ? "plug/agents/plugged.md" : `${index === 4 ? ".agents" : ".openhands"}/agents/${name}`,
    ),
  );
  expect(byName.map(({ path: _, ...one }) => one)).toEqual([
    { name: "broken", description: "", systemPrompt: "broken", isUsers: true },
    { name: "mine", description: "", systemPrompt: "mine", color: "teal", isUsers: true },
    { name: "plugged", description: "", systemPrompt: "Plugged", tools: ["grep", "glob"] },
    { name: "reader", description: "", systemPrompt: "Read only." },
    { ...tester, model: "fast", permissionMode: "always_confirm", maxIterations: 7 },
  ]);
});

test("values of the wrong type are ignored with a warning", () => {
  const reported: string[] = [];
  const report = (sentence: string) => void reported.push(sentence);
  const text =
    "---\nname: [1]\ntools: {a: 1}\nmodel: 5\npermission_mode: yolo\nmax_iterations: -1\n---\nBody";
  expect(parseAgentDefinition("/x/odd.md", text, report)).toEqual({
    name: "odd",
    description: "",
    systemPrompt: "Body",
    path: "/x/odd.md",
  });
  expect(parseAgentDefinition("/x/nul.md", "\0\0", report)).toBeUndefined();
  expect(reported).toEqual([
    "/x/odd.md: of its front matter name, tools, model, permission_mode, max_iterations cannot be used.",
    "/x/nul.md: it is not text, and describes no sub-agent.",
  ]);
});
