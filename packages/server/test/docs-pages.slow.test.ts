import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Command } from "./support/command.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
let dir = "";

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "sandpiper-docs-test-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

/** Executes pages with the given blocks; `~~~` stands for the fence. */
async function execute(pages: Record<string, string>, seconds = 120) {
  const files = Object.entries(pages).map(([name, text]) => ({ path: join(dir, `${name}.md`), text }));
  for (const { path, text } of files) await writeFile(path, text.replaceAll("~~~", "```"));
  const args = ["scripts/docs/main.ts", "--timeout", `${seconds}`, ...files.map(({ path }) => path)];
  const command = new Command(args, {}, { cwd: root, program: ["scripts/node"] });
  const code = await command.exit;
  return { code, output: command.stdout.replaceAll(`${dir}/`, ""), stderr: command.stderr };
}

test("a page passes whose commands print what it shows", { timeout: 240_000 }, async () => {
  const { code, output, stderr } = await execute({
    good: `# A page

<!-- prepare: demo_project ~/widgets -->
~~~sh
cd ~/widgets
sandpiper run "Repair it" --yes --apply 2>/dev/null
~~~

~~~text
diff --git a/lib/duration.sh b/lib/duration.sh
…
-    total=$((total + number / size))
+    total=$((total + number * size))
…
~~~

~~~sh
curl -s "$URL/api/v1/sandboxes/search" -H "X-Session-API-Key: $KEY"
~~~

~~~json
{
  "items": [{"id": "sbx-…", … "status": "PAUSED", …}],
  "next_page_id": null
}
~~~

<!-- file: ~/notes/a.txt -->
~~~text
one
two
three
~~~

<!-- exit: 3 -->
~~~sh
cat ~/notes/a.txt
(exit 3)
~~~

~~~text
o…e
…
~~~

~~~ts
const key: string = process.env.KEY ?? "";
console.log(key);
~~~

~~~text
the-key-that-was-printed
~~~

<!-- not executed: it deletes everything -->
~~~sh
exit 1
~~~
`,
  });
  expect({ output, stderr }).toMatchObject({
    output: expect.stringMatching(/\n1 passed, 0 failed\n$/),
    stderr: "",
  });
  expect(output).toContain("not executed good.md:57: it deletes everything\n");
  expect(output).toContain("\n1 pages, 5 blocks executed, 1 not (each with its reason), 0 failed\n");
  expect(code).toBe(0);
});

const broken: Record<string, { page: string; says: string }> = {
  "prints something else": {
    page: "# A\n\n~~~sh\necho one\necho $HOME\n~~~\n\n~~~text\none\ntwo\n~~~\n",
    says: "page.md:10: the block prints something else. Expected:\n  | one\n  | two\nPrinted:\n  | one\n  | /home/ann\n",
  },
  "has a command that fails": {
    page: "# A\n\n~~~sh\necho one\ncat /missing\necho two\n~~~\n",
    says: "page.md:5: the block ends with 1, not 0. Printed:\n  | one\n  | cat: /missing: No such file or directory\n",
  },
  "has a refused request": {
    page: "# A\n\n<!-- server: SANDPIPER_LOG_LEVEL=error -->\n\n~~~sh\ncurl -s $URL/api/v1/users/me | cat\n~~~\n",
    says: "page.md:6: the block ends with 22, not 0.",
  },
  "ends well where an exit code is expected": {
    page: "# A\n\n<!-- exit: 2 -->\n~~~sh\ntrue\n~~~\n",
    says: "page.md:5: the block ends with 0, not 2.",
  },
  "has an unknown comment": {
    page: "# A\n\n<!-- skip: later -->\n~~~sh\ntrue\n~~~\n",
    says: "page.md:3: the comment is none of not executed, prepare, file, exit, server, python: skip: later\n",
  },
  "has a block without a reason": {
    page: "# A\n\n~~~yaml\na: 1\n~~~\n",
    says: 'page.md:4: a block in "yaml" is not executed: say why',
  },
  "has a comment without a block": {
    page: "# A\n\n<!-- not executed: why -->\n\nText.\n",
    says: "page.md:3: no block follows this comment.\n",
  },
  "has a failing preparation": {
    page: "# A\n\n<!-- prepare:\ncd /missing -->\n~~~sh\ntrue\n~~~\n",
    says: "page.md:3: the block ends with 1, not 0. Printed:\n",
  },
};

for (const [what, { page, says }] of Object.entries(broken))
  test(`a page fails that ${what}`, { timeout: 240_000 }, async () => {
    const server = page.includes("server:") ? "" : "\n<!-- server: none -->\n";
    const { code, output } = await execute({ page: page + server });
    expect(output).toContain(`FAILED ${says}`);
    expect(output).toMatch(/, 1 failed\n0 passed, 1 failed\n$/);
    expect(code).toBe(1);
  });

test("a page fails whose block does not end, and the next page runs", { timeout: 240_000 }, async () => {
  const { code, output } = await execute(
    {
      page: "# A\n\n<!-- server: none -->\n\n~~~sh\necho begins\nsleep 600\n~~~\n",
      other: "# B\n\n<!-- server: none -->\n\n~~~sh\ntrue\n~~~\n",
    },
    20,
  );
  expect(output).toContain("FAILED page.md:6: the block runs for more than 20 s. Printed:\n  | begins\n");
  expect(output).toMatch(/\n1 passed, 1 failed\n$/);
  expect(code).toBe(1);
});

test("a page fails whose server dies", { timeout: 240_000 }, async () => {
  const { output } = await execute({
    page: `# A

~~~sh
curl -s -X POST $URL/api/v1/sandboxes -H "X-Session-API-Key: $KEY" > /dev/null
pid=$(sed 's/.*"pid":\\([0-9]*\\).*/\\1/' ~/.local/share/sandpiper/server.json)
kill -KILL $pid
while [ -e /proc/$pid ]; do sleep 0.1; done
~~~

~~~sh
true
~~~
`,
  });
  expect(output).toMatch(/FAILED page\.md:\d+: the server ended \(SIGKILL\):\n/);
  expect(output).toMatch(/\n0 passed, 1 failed\n$/);
});
