import { PlatformError } from "@sandpiper/core/errors";
import { type CommandRunner, toScriptCommand } from "@sandpiper/sandbox/files/files";
import { runToEnd } from "@sandpiper/sandbox/shell/run";

/** Time limit of a setup script, s (app-server.md section 2.4). */
const setupSeconds = 600;

/**
 * Arguments: project folder, state file, seconds. A background shell runs the script and writes its
 * exit code, so that a start resumed after a crash waits for the same script. The word
 * `sandpiper-setup` in its command line distinguishes that shell from a later process with its id.
 */
const setupScript = `
cd -- "$1" || exit 1
[ -f .openhands/setup.sh ] || exit 60
state=$2 limit=$3
folder=\${state%/*}
mkdir -p -- "$folder" || exit 1
alive() { pid=$(cat "$state.pid" 2>/dev/null) && [ -n "$pid" ] && grep -q sandpiper-setup "/proc/$pid/cmdline" 2>/dev/null; }
if [ ! -f "$state" ] && ! alive; then
  sh -c 'shell=$(command -v bash || echo sh) limited=
    command -v timeout >/dev/null 2>&1 && limited="timeout -k 5 $2"
    $limited "$shell" -c ". ./.openhands/setup.sh" </dev/null >"$1.log" 2>&1
    echo $? >"$1.new" && mv -f "$1.new" "$1"' sandpiper-setup "$state" "$limit" </dev/null >/dev/null 2>&1 &
  echo $! >"$state.pid"
fi
while [ ! -f "$state" ] && alive; do sleep 0.1 2>/dev/null || sleep 1; done
[ -f "$state" ] && cat "$state" || echo 137
tail -c 2000 "$state.log" 2>/dev/null
exit 0`;

export interface SetupResult {
  /** Exit code of the script; 124 after a time-out. */
  code: number;
  /** End of its output. */
  output: string;
}

/**
 * Runs `.openhands/setup.sh` of a project once for a conversation; undefined when there is none. A
 * failed script is a result, not an error. Throws what `exec` throws, and the signal's reason.
 */
export async function runSetupScript(
  sandbox: CommandRunner,
  workingDir: string,
  conversationId: string,
  signal: AbortSignal,
): Promise<SetupResult | undefined> {
  const state = `/tmp/.sandpiper-setup/${conversationId}`;
  const command = toScriptCommand(sandbox, setupScript, [workingDir, state, String(setupSeconds)]);
  const limits = { timeoutMs: (setupSeconds + 10) * 1000, maxOutputBytes: 16 * 1024, signal };
  const { code, stdout, stderr, timedOut } = await runToEnd(sandbox, { ...command, cwd: "/" }, limits);
  if (timedOut) return { code: 124, output: "" };
  if (code === 60) return undefined;
  if (code !== 0)
    throw new PlatformError("SetupScriptUnrunnable", { reason: stderr.toString().trim().slice(0, 300) });
  const [first = "", ...rest] = stdout.toString().split("\n");
  return { code: Number.parseInt(first, 10) || 0, output: rest.join("\n").trim() };
}

/** The note for the agent about a failed setup script; undefined when it succeeded. */
export function setupNote(result: SetupResult | undefined): string | undefined {
  if (!result || result.code === 0) return undefined;
  const how =
    result.code === 124 ? `did not end within ${setupSeconds} s` : `ended with exit code ${result.code}`;
  return `The repository's script .openhands/setup.sh ${how}. The end of its output:\n${result.output || "(nothing)"}`;
}
