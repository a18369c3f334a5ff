import type { Analysis } from "./analysis.ts";
import type { Invocation } from "./invocation.ts";

const readers = new Set(
  "ls ll dir pwd cat head tail less more wc grep egrep fgrep rg ag ack find fd tree stat file du df sort uniq cut tr awk sed diff cmp comm which whereis type echo printf date whoami id hostname uname env printenv ps top free uptime basename dirname realpath readlink jq yq md5sum sha1sum sha256sum cksum od xxd hexdump strings test [ [[ true false cd pushd popd history seq column nl tac rev fold expr man help sleep wait jobs lsof ss netstat nproc lscpu locale tput".split(
    " ",
  ),
);
const gitReaders = new Set(
  "status log diff show branch remote rev-parse ls-files ls-tree blame describe shortlog grep cat-file rev-list tag stash".split(
    " ",
  ),
);

/** Whether a script only looks: no program that changes something, and nothing written to a file. */
export function changesNothing({ steps, redirects, code, unreadable }: Analysis): boolean {
  if (unreadable || steps.length === 0) return false;
  const writes = redirects.some(
    ({ operator, target }) => operator.includes(">") && !/^(?:\/dev\/(?:null|stdout|stderr)|\d|-)$/.test(target),
  );
  return !writes && steps.every(({ run }) => onlyReads(run, code));
}

function onlyReads(run: Invocation, code: readonly string[]): boolean {
  const { name, args, program, wrappers } = run;
  if (wrappers.some((wrapper) => ["sudo", "doas", "chroot", "nsenter", "unshare"].includes(wrapper))) return false;
  if (program.includes("/") && !/^\/(?:usr\/)?s?bin\//.test(program)) return false;
  if (name === "git") return gitReads(args);
  if (name === "sed") return !args.some((arg) => /^-[a-zA-Z]*i|^--in-place/.test(arg) || /(?:^|[;/}])\s*[we]\s/.test(arg));
  if (name === "awk") return !code.some((text) => /system|>|\|/.test(text));
  if (name === "find" || name === "fd") return !args.some((arg) => /^-(?:delete|exec|execdir|ok|okdir|fprint|fls|x)/.test(arg));
  if (name === "sort") return !args.some((arg) => /^(?:-o|--output)/.test(arg));
  return readers.has(name);
}

function gitReads(args: readonly string[]): boolean {
  const rest = args.filter((arg, index) => !arg.startsWith("-") && args[index - 1] !== "-C");
  const [command = "", ...words] = rest;
  if (args.includes("-c") || !gitReaders.has(command)) return false;
  if (command === "stash") return words[0] === "list" || words[0] === "show";
  if (command === "branch" || command === "tag" || command === "remote") {
    const isList = words.length === 0 || args.some((arg) => /^(?:-l|--list|-v|-vv|--contains|--show-current)$/.test(arg));
    return isList && !args.some((arg) => /^-[dDmMcC]$|^--delete|^--move/.test(arg));
  }
  return !args.some((arg) => arg.startsWith("--output"));
}
