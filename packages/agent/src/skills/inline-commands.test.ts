import { expect, test } from "vitest";
import { withCommandOutput } from "./inline-commands.ts";

const context = {
  sandbox: () => Promise.reject(new Error("no sandbox")),
  workingDir: "/w",
  signal: new AbortController().signal,
};
const ran = "[The command could not be run: no sandbox]";

test.each([
  ["a !`x` b", `a ${ran} b`],
  ["```\n!`x`\n```\n!`x`", `\`\`\`\n!\`x\`\n\`\`\`\n${ran}`],
  [
    "  ```sh\n!`x`\n``` no end\n!`x`\n\t```  \n!`x`\n",
    `  \`\`\`sh\n!\`x\`\n\`\`\` no end\n!\`x\`\n\t\`\`\`  \n${ran}\n`,
  ],
  ["!`x`\n```\n!`x`", `${ran}\n\`\`\`\n!\`x\``],
  ["```\n```", "```\n```"],
])("commands run outside of fenced blocks only: %j", async (text, expected) => {
  expect(await withCommandOutput(text, context)).toBe(expected);
});

test("megabytes of opened blocks and commands take no time", async () => {
  const begin = performance.now();
  for (const text of [
    "```a\n".repeat(800_000),
    "```a\n```\n".repeat(400_000),
    "!`\n".repeat(1_000_000),
    " ".repeat(4_000_000),
  ])
    expect((await withCommandOutput(text, context)) === text).toBe(true);
  expect(performance.now() - begin).toBeLessThan(20_000);
});
