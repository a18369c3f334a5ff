import { quoteWord } from "./quote.ts";

/**
 * The state of a shell that outlives its process: exported variables and the working directory, as shell text in a file of the sandbox.
 * There it lives as long as the sandbox's files, goes with them, and is nobody else's.
 */

/**
 * In bash, a variable that the earlier shell did not have is taken away, but for the placeholders of secrets that came meanwhile and the certificates that
 * go with them. The quotes keep the text from shells that cannot read it.
 */
const forgetOthers =
  '[ "$BASH_VERSION" ] && eval \'for _n in $(compgen -e); do case ${!_n} in sandpiper_*|/etc/sandpiper/*) ;; *) unset "$_n" ;; esac; done; unset _n\'\n';

/** Shell text that writes the state of the shell that runs it. */
export function toSaveCommand(file: string, workingDir: string): string {
  const [begin, end] = [forgetOthers, `${toChangeDirectory(workingDir)}\n`].map(
    (text) => `printf %s ${quoteWord(text)}`,
  );
  const folder = `command mkdir -p -- ${quoteWord(toFolder(file))}`;
  return `(umask 077; ${folder} && { ${begin}; export -p; ${end}; } >|${quoteWord(file)}) 2>/dev/null || :`;
}

/** What is left of a shell that cannot be asked: where it was last seen. */
export function toChangeDirectory(workingDir: string): string {
  return `cd -- ${quoteWord(workingDir)}`;
}

/** Shell text that takes over a state that was kept, once. */
export function toRestoreCommand(file: string): string {
  const path = quoteWord(file);
  return `if [ -r ${path} ]; then . ${path}; command rm -f -- ${path}; fi >/dev/null 2>&1`;
}

function toFolder(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}
