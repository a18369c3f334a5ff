import type { Fence } from "../../../driver.ts";
import { quoteWord } from "../../../shell/terminal/quote.ts";
import { insideBusybox } from "../../common/busybox.ts";
import { toFenceScript } from "../../common/fence.ts";

/** A command in the form of the runtime's process file. */
export interface Command {
  args: string[];
  /** `NAME=value`. */
  env: string[];
  cwd: string;
  fence?: Fence | undefined;
}

/** Paths in the sandbox: a terminal, or pipes with the suffixes `.i`, `.o` and `.e`. */
export type CommandEnds = { terminal: string } | { pipes: string };

const maxTextBytes = 64 * 1024;

/** Variables that a shell can export: it sets the others itself, or cannot hold them. */
const exportable = /^(?!(?:EPOCHREALTIME|EPOCHSECONDS|LINENO|OPTIND|RANDOM)=)[A-Za-z_]\w*=/;

/**
 * Script that makes a warm shell run a command over named pipes or on a terminal. Undefined when a
 * shell cannot run the command exactly.
 *
 * The shell writes `s` to descriptor 3 once they are open, waits there for a line (without it the
 * command does not run, so the server can still cancel), and writes `x CODE` at the end. The
 * command gets its own session, as from the runtime. The script looks up the program itself,
 * because busybox prefers its applets to the sandbox's programs.
 */
export function makeCommandScript(ends: CommandEnds, { args, env, cwd, fence }: Command): string | undefined {
  const [program, ...rest] = args;
  if (!program || !cwd.startsWith("/") || !env.every((entry) => exportable.test(entry))) return undefined;
  const path = env.find((entry) => entry.startsWith("PATH="))?.slice(5) ?? "";
  const candidates = program.includes("/")
    ? [program]
    : path.split(":").map((folder) => `${folder || "."}/${program}`);
  const [redirection, session] =
    "terminal" in ends
      ? [`<>${ends.terminal} >&0 2>&0`, "setsid -c"]
      : [`<${ends.pipes}.i >${ends.pipes}.o 2>${ends.pipes}.e`, "setsid"];
  const text = `(
echo s >&3; read -r go <&3 || exit; unset go
${fence ? toFenceScript(fence, insideBusybox) : ""}cd -P -- ${quoteWord(cwd)} || exit 126
set -- ${candidates.map(quoteWord).join(" ")}
while [ $# -gt 1 ] && ! { [ -f "$1" ] && [ -x "$1" ]; }; do shift; done
[ -e "$1" ] || { echo ${quoteWord(`${program}: not found`)} >&2; exit 127; }
unset PWD OLDPWD
${env.length > 0 ? `export ${env.map(quoteWord).join(" ")}` : ""}
exec 3>&- ${insideBusybox} ${session} "$1" ${rest.map(quoteWord).join(" ")}
) ${redirection}; echo "x $?" >&3
`;
  return Buffer.byteLength(text) <= maxTextBytes ? text : undefined;
}
