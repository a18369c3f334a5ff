import type { ShellCommand, ShellScript } from "./commands.ts";

const readers = new Set(
  (
    "ls ll dir pwd cat head tail less more wc grep egrep fgrep rg ag ack find fd tree stat file du df sort uniq cut tr awk sed " +
    "diff cmp comm which whereis type echo printf date whoami id hostname uname env printenv ps top free uptime basename dirname " +
    "realpath readlink jq yq md5sum sha1sum sha256sum cksum od xxd hexdump strings test [ [[ true false cd pushd popd history seq " +
    "column nl tac rev fold expr man help sleep wait jobs lsof ss netstat nproc lscpu locale tput"
  ).split(" "),
);
const gitReaders = new Set(
  "status log diff show branch remote rev-parse ls-files ls-tree blame describe shortlog grep cat-file rev-list tag stash".split(
    " ",
  ),
);

/** Whether a script writes no file and runs only programs that change nothing. */
export function isReadOnly({ commands, redirects, complete }: ShellScript): boolean {
  if (!complete || commands.length === 0) return false;
  const writes = redirects.some(
    ({ operator, target }) =>
      operator.includes(">") && !/^(?:\/dev\/(?:null|stdout|stderr)|\d|-)$/.test(target),
  );
  return !writes && commands.every(onlyReads);
}

function onlyReads({ name, args, program, wrappers }: ShellCommand): boolean {
  if (wrappers.some((wrapper) => ["sudo", "doas", "chroot", "nsenter", "unshare"].includes(wrapper)))
    return false;
  if (program.includes("/") && !/^\/(?:usr\/)?s?bin\//.test(program)) return false;
  const has = (pattern: RegExp) => args.some((arg) => pattern.test(arg));
  if (name === "git") return gitReads(args);
  if (name === "sed") return !has(/^-[a-zA-Z]*i|^--in-place|(?:^|[;/}])\s*[we]\s/);
  if (name === "awk") return !has(/system|>|\|/);
  if (name === "find" || name === "fd") return !has(/^-(?:delete|exec|execdir|ok|okdir|fprint|fls|x)/);
  if (name === "sort") return !has(/^(?:-o|--output)/);
  return readers.has(name);
}

function gitReads(args: readonly string[]): boolean {
  const [command = "", ...words] = args.filter(
    (arg, index) => !arg.startsWith("-") && args[index - 1] !== "-C",
  );
  if (args.includes("-c") || !gitReaders.has(command)) return false;
  if (command === "stash") return words[0] === "list" || words[0] === "show";
  if (command === "branch" || command === "tag" || command === "remote") {
    const isList =
      words.length === 0 || args.some((arg) => /^(?:-l|--list|-v|-vv|--contains|--show-current)$/.test(arg));
    return isList && !args.some((arg) => /^-[dDmMcC]$|^--delete|^--move/.test(arg));
  }
  return !args.some((arg) => arg.startsWith("--output"));
}
