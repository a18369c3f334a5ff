import type { Analysis } from "../shell/analysis.ts";
import type { Invocation } from "../shell/invocation.ts";

/** A git command without git's own options. */
export function gitCommand({ name, args }: Invocation): { command: string; args: string[]; settings: string[] } | undefined {
  if (name !== "git" && name !== "hub") return undefined;
  const settings: string[] = [];
  let at = 0;
  for (; at < args.length && args[at]!.startsWith("-"); at++) {
    if (args[at] === "-c") settings.push(args[at + 1] ?? "");
    if (["-C", "-c", "--git-dir", "--work-tree", "--namespace"].includes(args[at]!)) at++;
  }
  return { command: args[at] ?? "", args: args.slice(at + 1), settings };
}

/** Changes what others have: overwrites or deletes branches and tags of a remote, or throws away what could bring them back. */
export function rewritesRemote({ steps }: Analysis): boolean {
  return steps.some(({ run }) => {
    const git = gitCommand(run);
    if (git?.command === "push") return overwrites(git.args);
    if (git?.command === "reflog")
      return git.args[0] === "expire" && git.args.some((arg) => /^--expire(?:-unreachable)?=(?:now|all|0)/.test(arg));
    if (
      git?.command === "filter-branch" ||
      git?.command === "filter-repo" ||
      run.name === "bfg" ||
      run.name === "git-filter-repo"
    )
      return true;
    return isForgeDeletion(run);
  });
}

function overwrites(args: readonly string[]): boolean {
  if (args.includes("--dry-run") || args.includes("-n")) return false;
  return args.some(
    (arg, index) =>
      /^--(?:force?(?:-with-lease|-if-includes)?|mirror|delete|prune)(?:=|$)/.test(arg) ||
      /^-[a-z]*[fd][a-z]*$/.test(arg) ||
      // `+main`, `:branch`
      (index > 0 && /^(?:\+[^+]|:[^/])/.test(arg)),
  );
}

/** Deletes at GitHub or GitLab by their own tools. */
function isForgeDeletion({ name, args }: Invocation): boolean {
  if (name !== "gh" && name !== "glab") return false;
  const [noun, verb] = args;
  if (noun === "api")
    return (
      args.some((arg, index) => /^(?:-X|--method)$/.test(arg) && /^delete$/i.test(args[index + 1] ?? "")) ||
      args.some((arg) => /^(?:-X|--method=)delete$/i.test(arg))
    );
  const delicate = ["repo", "release", "secret", "ssh-key", "gpg-key", "variable", "environment"].includes(noun ?? "");
  return delicate && ["delete", "archive", "rename", "transfer", "remove"].includes(verb ?? "");
}
