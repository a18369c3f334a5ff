import { type CommandRunner, runScript } from "@sandpiper/sandbox/files/files";

/** Time for the installation, ms. */
const timeoutMs = 30_000;

/** The hook that calls the repository's script, and before it the hook that was there. The first comment line tells it from others. */
const hook = `#!/bin/sh
# Installed by Sandpiper: runs .openhands/pre-commit.sh
before=$(git rev-parse --git-path hooks)/pre-commit.local
if [ -x "$before" ]; then "$before" "$@" || exit $?; fi
cd "$(git rev-parse --show-toplevel)" && [ -f .openhands/pre-commit.sh ] || exit 0
[ -x .openhands/pre-commit.sh ] && exec ./.openhands/pre-commit.sh "$@"
exec "$(command -v bash || echo sh)" .openhands/pre-commit.sh "$@"
`;

/**
 * Takes the project folder and the hook. After a kill of the server this runs concurrently with its former self: each looks
 * at a copy of its own, so that neither takes the other's hook for a foreign one, and puts files in place whole. The hook is
 * an argument because the kill could cut a standard input short.
 */
const installScript = `
cd -- "$1" && [ -f .openhands/pre-commit.sh ] && command -v git >/dev/null 2>&1 || exit 0
hooks=$(git rev-parse --git-path hooks 2>/dev/null) && mkdir -p -- "$hooks" || exit 0
own='^# Installed by Sandpiper' draft="$hooks/.pre-commit.$$"
trap 'rm -f -- "$draft"' EXIT
if cp -- "$hooks/pre-commit" "$draft" 2>/dev/null && ! grep -q "$own" "$draft"; then
  chmod +x "$draft" && mv -f -- "$draft" "$hooks/pre-commit.local"
fi
printf %s "$2" >"$draft" && chmod 755 "$draft" && mv -f -- "$draft" "$hooks/pre-commit"`;

/** Makes `.openhands/pre-commit.sh` of a repository its pre-commit hook; a foreign hook goes on as `pre-commit.local`. Idempotent. */
export async function installHooks(
  sandbox: CommandRunner,
  workingDir: string,
  signal: AbortSignal,
): Promise<void> {
  await runScript(sandbox, installScript, [workingDir, hook], { timeoutMs, signal });
}
