import type { BashOutput } from "@sandpiper/wire";
import { quoteForShell } from "./apply-command.ts";
import type { Client } from "./client.ts";
import { inertLine } from "./inert.ts";
import type { TaskRun } from "./task.ts";

/** Characters of a path that a sentence names. */
const maxPath = 300;

/** Seconds. */
const timeout = 20;

/**
 * Prints a line for each environment that does not run: its number, what it lacks, and the path of
 * that. Asks the sandbox, which alone knows what it has; no program of the environment runs.
 */
const script = `at=0
for each do
  at=$((at + 1))
  [ -f "$each/pyvenv.cfg" ] || continue
  home=$(head -c 4096 "$each/pyvenv.cfg" | sed -n 's/^home *= *//p' | head -n 1)
  if ! [ -x "$each/bin/python" ] || ! [ -d "$home" ]; then echo "$at python $home"
  elif [ -f "$each/bin/pip" ]; then
    program=$(head -c 4096 "$each/bin/pip" | sed -n '1s/^#! *//p')
    case "$program" in
      /bin/sh) ;;
      ?*) [ -x "$program" ] || echo "$at path $program" ;;
    esac
  fi
done`;

/**
 * A sentence for each Python environment of the copy that the sandbox cannot run, for example
 * because pyenv has its interpreter in the user's home folder. `environments`: relative paths.
 */
export async function describeEnvironments(
  client: Client,
  { sandbox, workingDir }: Pick<TaskRun, "sandbox" | "workingDir">,
  environments: readonly string[],
): Promise<string[]> {
  if (environments.length === 0) return [];
  const words = environments.map((path) => quoteForShell(`./${path}`)).join(" ");
  const path = `/agent/${encodeURIComponent(sandbox.id)}/api/bash/execute_bash_command`;
  const json = { command: `set -- ${words}\n${script}`, cwd: workingDir, timeout };
  // An image may have no shell, and an older server other routes: then there is nothing to say.
  const output = await client.json<BashOutput>("POST", path, { json }).catch(() => undefined);
  return (output?.stdout ?? "").split("\n").flatMap((line) => {
    const [, number, lack, missing = ""] = /^(\d+) (python|path) (.*)$/.exec(line) ?? [];
    const name = environments[Number(number) - 1];
    return name === undefined ? [] : [describe(inertLine(name), lack!, inertLine(missing.slice(0, maxPath)))];
  });
}

function describe(name: string, lack: string, missing: string): string {
  return lack === "python"
    ? `The Python environment ${name} does not run in the sandbox, which has no ${missing || `${name}/bin/python`}: make it with a Python that the sandbox has, such as /usr/bin/python3, or choose an image with --image.`
    : `The Python environment ${name} was made for another path (${missing}): in the sandbox, its programs run as ${name}/bin/python -m NAME.`;
}
