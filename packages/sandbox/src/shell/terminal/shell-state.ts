import { quoteWord } from "./quote.ts";

// The state of a shell (exported variables, working directory) outlives its process as shell text
// in a sandbox file.

/**
 * In bash, unsets variables that the earlier shell did not have, except placeholders of new secrets
 * and their certificates. The quotes hide the text from shells that cannot parse it.
 */
const forgetOthers =
  '[ "$BASH_VERSION" ] && eval \'for _n in $(compgen -e); do case ${!_n} in sandpiper_*|/etc/sandpiper/*) ;; *) unset "$_n" ;; esac; done; unset _n\'\n';

/** A command that saves the state of its shell. */
export function toSaveCommand(file: string, workingDir: string): string {
  const [begin, end] = [forgetOthers, `${toChangeDirectory(workingDir)}\n`].map(
    (text) => `printf %s ${quoteWord(text)}`,
  );
  const path = quoteWord(toFolder(file));
  const folder = `{ [ -d ${path} ] || command mkdir -p -- ${path}; }`;
  return `(umask 077; ${folder} && { ${begin}; export -p; ${end}; } >|${quoteWord(file)}) 2>/dev/null || :`;
}

/** The state of a busy shell: its last known directory. */
export function toChangeDirectory(workingDir: string): string {
  return `cd -- ${quoteWord(workingDir)}`;
}

/** A command that restores a saved state and removes the file. */
export function toRestoreCommand(file: string): string {
  const path = quoteWord(file);
  return `if [ -r ${path} ]; then . ${path}; command rm -f -- ${path}; fi >/dev/null 2>&1`;
}

function toFolder(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}
