/** How the tests of a project may be run, found from its list of files. */

/** A file that says how, and has to be read first. */
export type TestCommand = { run: string } | { read: string; pick: (text: string) => string | undefined };

/** Ways to run the tests, the most explicit first. `task` may name a command between backticks. Paths are relative to the working folder. */
export function testCommands(task: string, files: readonly string[]): TestCommand[] {
  const shallow = files
    .filter((file) => !/(^|\/)(node_modules|vendor)\//.test(file))
    .sort((a, b) => a.split("/").length - b.split("/").length || a.localeCompare(b));
  const named = (pattern: RegExp) => shallow.filter((file) => pattern.test(file));
  const commands: TestCommand[] = [];
  const told = /`([^`\n]*\btests?\b[^`\n]*)`/.exec(task)?.[1];
  if (told && /^(sh|bash|\.\/|npm|node|make|python3?|pytest|go|cargo)\b|^\.\//.test(told)) commands.push({ run: told });
  for (const file of named(/(^|\/)(run[-_]?)?tests?\.sh$/i)) commands.push({ run: inFolder(file, (name) => `sh ${name}`) });
  for (const file of named(/(^|\/)package\.json$/)) commands.push({ read: file, pick: (text) => packageScript(file, text) });
  for (const file of named(/(^|\/)(GNU)?[Mm]akefile$/)) {
    commands.push({
      read: file,
      pick: (text) =>
        /^(test|check)\s*:/m.test(text) ? inFolder(file, () => `make ${/^test\s*:/m.test(text) ? "test" : "check"}`) : undefined,
    });
  }
  const python = named(/(^|\/)(test_[^/]*|[^/]*_test)\.py$/)[0];
  if (python) {
    const folder = python.includes("/") ? python.slice(0, python.lastIndexOf("/")) : ".";
    commands.push(
      { run: "python3 -m pytest -q" },
      { run: `PYTHONPATH=. python3 -m unittest discover -s ${quote(folder)} -p '*test*.py'` },
    );
  }
  if (named(/\.test\.[cm]?[jt]s$|(^|\/)(test|__tests__)\/[^/]+\.[cm]?js$/)[0]) commands.push({ run: "node --test" });
  if (named(/(^|\/)go\.mod$/)[0]) commands.push({ run: "go test ./..." });
  if (named(/(^|\/)Cargo\.toml$/)[0]) commands.push({ run: "cargo test" });
  for (const file of named(/(^|\/)tests?\/[^/]+\.sh$|[-_.]tests?\.sh$|(^|\/)test[-_][^/]*\.sh$/))
    commands.push({ run: `sh ${quote(file)}` });
  return files.some((file) => file.endsWith(".py")) ? commands.map(withoutBytecode) : commands;
}

/** Python takes stored bytecode for current when source and size look the same, which two quick changes of one character do. */
function withoutBytecode(way: TestCommand): TestCommand {
  const prefix = "export PYTHONDONTWRITEBYTECODE=1; ";
  if ("run" in way) return { run: prefix + way.run };
  return {
    read: way.read,
    pick: (text) => {
      const command = way.pick(text);
      return command && prefix + command;
    },
  };
}

/** True when the output says that there was nothing to run, or nothing to run it with. */
export function didNotRun(exitCode: number | undefined, output: string): boolean {
  if (exitCode === 127 || exitCode === 126) return true;
  return /No module named '?pytest|^Ran 0 tests|NO TESTS RAN|no tests ran|Missing script:? "?test|No rule to make target|^\W*tests 0$/m.test(
    output,
  );
}

function packageScript(file: string, text: string): string | undefined {
  const script = /"test"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1]?.replace(/\\(.)/g, "$1");
  if (!script || /no test specified/.test(script)) return undefined;
  // What only needs node runs without npm.
  return inFolder(file, () => (/^node\b/.test(script) ? script : "npm test --silent"));
}

function inFolder(file: string, command: (name: string) => string): string {
  const slash = file.lastIndexOf("/");
  if (slash < 0) return command(quote(file));
  // In a subshell: the terminal keeps its folder between calls.
  return `(cd ${quote(file.slice(0, slash))} && ${command(quote(file.slice(slash + 1)))})`;
}

function quote(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
