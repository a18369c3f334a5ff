import { quoteWord } from "../../../shell/terminal/quote.ts";
import { insideBusybox, insideFolder } from "../../common/folders.ts";

/** A command as the runtime's process file has it. */
export interface Command {
  args: string[];
  /** `NAME=value`. */
  env: string[];
  cwd: string;
}

/** Longest text that a resident shell is given, bytes. */
const maxText = 64 * 1024;

/** What a shell can export under its own name: others it sets itself, or cannot hold. */
const plainName = /^(?!(?:EPOCHREALTIME|EPOCHSECONDS|LINENO|OPTIND|RANDOM)=)[A-Za-z_]\w*=/;

/**
 * The text that makes a resident shell run a command over the named pipes `<name>.i`, `.o`, `.e`. Undefined for what a shell cannot carry exactly.
 *
 * The shell says `s` on descriptor 3 once the pipes are open, waits for a line on stdin (without it the command is not run, so the server
 * can still change its mind), and says `x CODE` at the end. The command leads a session of its own, as one that the runtime starts.
 * The program is looked up here, because busybox prefers its own applets to the sandbox's programs.
 */
export function commandText(name: string, { args, env, cwd }: Command): string | undefined {
  const [program, ...rest] = args;
  if (!program || !cwd.startsWith("/") || !env.every((entry) => plainName.test(entry))) return undefined;
  const path = env.find((entry) => entry.startsWith("PATH="))?.slice(5) ?? "";
  const candidates = program.includes("/")
    ? [program]
    : path.split(":").map((folder) => `${folder || "."}/${program}`);
  const pipe = `${insideFolder}/${name}`;
  const text = `(
echo s >&3; read -r go || exit; unset go
cd -P -- ${quoteWord(cwd)} || exit 126
set -- ${candidates.map(quoteWord).join(" ")}
while [ $# -gt 1 ] && ! { [ -f "$1" ] && [ -x "$1" ]; }; do shift; done
[ -e "$1" ] || { echo ${quoteWord(`${program}: not found`)} >&2; exit 127; }
unset PWD OLDPWD
${env.length > 0 ? `export ${env.map(quoteWord).join(" ")}` : ""}
exec 3>&- ${insideBusybox} setsid "$1" ${rest.map(quoteWord).join(" ")}
) <${pipe}.i >${pipe}.o 2>${pipe}.e; echo "x $?" >&3
`;
  return Buffer.byteLength(text) <= maxText ? text : undefined;
}
