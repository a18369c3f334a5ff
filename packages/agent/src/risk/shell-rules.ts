import { namesMetadata } from "./addresses.ts";
import {
  commandLine,
  hasOption,
  operands,
  optionValues,
  parseShellScript,
  type Redirect,
  type ShellCommand,
  type ShellScript,
} from "./commands.ts";
import type { RiskFinding } from "./findings.ts";
import { isForeignPackage } from "./package-rules.ts";
import {
  isCredentialPath,
  isDevice,
  isRegistryPath,
  isRootOfAll,
  isStartupPath,
  isSystemPath,
} from "./paths.ts";
import { opensRemoteShell, runsDownload } from "./pipe-rules.ts";
import { sendsData } from "./send-rules.ts";

/** A rule sees a whole script, or each command and each redirect of one. */
type Rule =
  | { script(script: ShellScript): boolean }
  | { command(command: ShellCommand): boolean; redirect?(redirect: Redirect): boolean };

const writesTo = (isTarget: (path: string) => boolean) => (redirect: Redirect) =>
  redirect.operator.includes(">") && isTarget(redirect.target);

const rules: readonly [RiskFinding, Rule][] = [
  ["pipe-to-shell", { script: runsDownload }],
  ["remote-shell", { script: opensRemoteShell }],
  ["destroy-files", { script: destroysFiles }],
  [
    "read-credentials",
    {
      command: readsCredentials,
      redirect: ({ operator, target }) => operator === "<" && isCredentialPath(target),
    },
  ],
  ["send-data", { command: sendsData }],
  ["destroy-remote", { command: destroysRemote }],
  ["foreign-package", { command: isForeignPackage, redirect: writesTo(isRegistryPath) }],
  ["change-system", { command: changesSystem, redirect: writesTo(isSystemPath) }],
  ["run-later", { command: runsLater, redirect: writesTo(isStartupPath) }],
  ["publish", { command: publishes }],
];

/** What the rules find in a shell script; one that exceeds a bound of the reader is unreadable. */
export function judgeScript(text: string): { findings: RiskFinding[]; script: ShellScript } {
  const script = parseShellScript(text);
  if (!script.complete) return { findings: ["unreadable"], script };
  const findings = rules.filter(([, rule]) => applies(rule, script)).map(([finding]) => finding);
  return { findings, script };
}

function applies(rule: Rule, script: ShellScript): boolean {
  if ("script" in rule) return rule.script(script);
  const { command, redirect } = rule;
  return script.commands.some(command) || (redirect !== undefined && script.redirects.some(redirect));
}

const editsInPlace = ({ name, args }: ShellCommand) =>
  name === "sed" && args.some((arg) => /^-[a-zA-Z]*i|^--in-place/.test(arg));

function destroysFiles({ commands, redirects }: ShellScript): boolean {
  if (redirects.some(writesTo(isDevice))) return true;
  let isAtRoot = false;
  return commands.some((command) => {
    const { name, args } = command;
    const paths = operands(command);
    if (name === "cd" || name === "pushd") isAtRoot = isRootOfAll(paths[0] ?? "~");
    switch (name) {
      case "rm":
      case "shred":
      case "rimraf": {
        const isRecursive = name !== "rm" || hasOption(command, "rR", "recursive");
        const takesAll = (path: string) => isRootOfAll(path) || (isAtRoot && /^(?:\*|\.\/\*?)$/.test(path));
        return (
          isRecursive && (args.includes("--no-preserve-root") || paths.some(takesAll) || paths.some(isDevice))
        );
      }
      case "chmod":
      case "chown":
      case "chgrp":
        return hasOption(command, "R", "recursive") && paths.slice(1).some(isRootOfAll);
      case "mv":
        return paths.at(-1) === "/dev/null" || paths.slice(0, -1).some(isRootOfAll);
      case "find": {
        const choosesFiles = args.some((arg) => /^-i?(?:name|path|regex|wholename)$/.test(arg));
        const deletes = args.some(
          (arg, index) => arg === "-delete" || (arg.startsWith("-exec") && args[index + 1] === "rm"),
        );
        return deletes && !choosesFiles && isRootOfAll(paths[0] ?? "");
      }
      case "dd":
        return args.some((arg) => arg.startsWith("of=") && isDevice(arg.slice(3)));
      case "tee":
      case "cp":
        return isDevice(paths.at(-1) ?? "");
      default:
        return (
          /^(?:mkfs(?:\.\w+)?|mke2fs|mkswap|wipefs|blkdiscard)$/.test(name) &&
          paths.some((path) => path.startsWith("/dev/"))
        );
    }
  });
}

/** Programs that do not print the files which they name, or whose arguments are not files. */
const showNothing = new Set(
  (
    "ls ll stat test [ [[ touch mkdir echo printf cd pushd basename dirname realpath readlink chmod chown which type file du " +
    "ssh-keygen ssh-keyscan ssh ssh-add ssh-agent export unset set alias read declare source . docker-compose tee"
  ).split(" "),
);
/** Programs that search a text in which an address is not opened. */
const searchText = new Set(["echo", "printf", "grep", "rg", "git", "sed", "ack", "ag"]);

const printsSecret = new RegExp(
  [
    "^(?:gh|glab) auth token",
    "^git credential fill",
    "^aws (?:configure (?:get .*(?:secret|token)|export-credentials)|sts get-session-token|secretsmanager get-secret-value)",
    "^gcloud (?:auth (?:application-default )?print-(?:access|identity)-token|secrets versions access)",
    "^az (?:account get-access-token|keyvault secret show)",
    "^vault (?:kv get|read|print token)",
    "^(?:op|pass|secret-tool) (?:show|read|item get|lookup)",
    "^npm config get .*(?:_auth|_password)",
  ].join("|"),
);

function readsCredentials(command: ShellCommand): boolean {
  const { name, args } = command;
  if (printsSecret.test(commandLine(command))) return true;
  if (!searchText.has(name) && args.some(namesMetadata)) return true;
  if (name === "kubectl" || name === "oc")
    return (
      /^\w+ get secrets?\b/.test(commandLine(command)) && args.some((arg) => /^(?:-o|--output)/.test(arg))
    );
  if (showNothing.has(name) || name === "git") return false;
  const isRead = (arg: string) =>
    [arg, arg.slice(arg.search(/[=@]/) + 1), arg.replace(/^file:\/\//i, "")].some(isCredentialPath);
  return readFiles(command).some(isRead);
}

/** The arguments that are files to read: neither a pattern nor the destination of a copy. */
function readFiles({ name, args }: ShellCommand): string[] {
  const plain = args.filter((arg) => !arg.startsWith("-") || arg.includes("="));
  if (["grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk"].includes(name))
    return plain.slice(args.some((arg) => /^-[a-z]*[ef]/.test(arg)) ? 0 : 1);
  if (name === "find" || name === "fd") return plain.slice(0, 1).filter((arg) => arg.includes("/"));
  if (["cp", "mv", "install", "rsync", "ln"].includes(name)) return plain.slice(0, -1);
  if (name === "docker" || name === "podman")
    return optionValues({ args }, "-v", "--volume").map((mount) => mount.split(":", 1)[0]!);
  return plain;
}

const deletesRemote = new RegExp(
  [
    String.raw`^(?:terraform|tofu|pulumi|cdk|terragrunt) destroy\b`,
    String.raw`^(?:kubectl|oc) delete\b`,
    String.raw`^helm (?:uninstall|delete)\b`,
    String.raw`^(?:aws s3|gsutil) r[mb]\b`,
    String.raw`^aws [\w-]+ (?:delete|terminate|deregister)-`,
    String.raw`^(?:gcloud|az|doctl|heroku|flyctl|fly) .*\b(?:delete|destroy)\b`,
    String.raw`^(?:gh|glab) (?:repo|release|secret|ssh-key|variable) (?:delete|archive|rename|remove)\b`,
    String.raw`^(?:gh|glab) api DELETE\b`,
    String.raw`^(?:git-filter-repo|bfg)\b`,
  ].join("|"),
  "i",
);

function destroysRemote(command: ShellCommand): boolean {
  const git = gitCommand(command);
  if (!git) return deletesRemote.test(commandLine(command));
  if (git.command !== "push") return git.command === "filter-branch" || git.command === "filter-repo";
  if (git.args.includes("--dry-run") || git.args.includes("-n")) return false;
  return git.args.some(
    (arg, index) =>
      /^--(?:force(?:-with-lease|-if-includes)?|mirror|delete|prune)(?:=|$)|^-(?=[a-z]*$)[abceg-z]*[fd]/.test(
        arg,
      ) ||
      // `+main`, `:branch`
      (index > 0 && /^(?:\+[^+]|:[^/])/.test(arg)),
  );
}

/** A git command without git's own options, and the settings that these give. */
function gitCommand({
  name,
  args,
}: ShellCommand): { command: string; args: string[]; settings: string[] } | undefined {
  if (name !== "git" && name !== "hub") return undefined;
  const settings: string[] = [];
  let at = 0;
  for (; args[at]?.startsWith("-"); at++) {
    if (args[at] === "-c") settings.push(args[at + 1] ?? "");
    if (["-C", "-c", "--git-dir", "--work-tree", "--namespace"].includes(args[at]!)) at++;
  }
  return { command: args[at] ?? "", args: args.slice(at + 1), settings };
}

const changeMachine = new Set(
  "nsenter insmod modprobe rmmod kexec pivot_root visudo useradd adduser usermod userdel passwd chpasswd setcap setenforce".split(
    " ",
  ),
);
const hostOption =
  /^--(?:privileged|(?:pid|net(?:work)?|userns|ipc)=host|cap-add=(?:all|sys_admin)|security-opt=.{0,40}unconfined)/i;
const hostMount =
  /^(?:\/|\/etc|\/root|\/home|(?:\/var)?\/run\/docker\.sock|\/proc|\/sys|\/dev):|(?:source|src)=(?:\/|\/var\/run\/docker\.sock|\/etc)(?:,|$)/;

function changesSystem(command: ShellCommand): boolean {
  const { name, args, wrappers } = command;
  const paths = operands(command);
  if (changeMachine.has(name) || wrappers.includes("nsenter") || wrappers.includes("chroot")) return true;
  switch (name) {
    case "mount":
      return args.length > 1;
    case "sysctl":
      return args.some((arg) => /^-[wp]$|^[\w.]+=/.test(arg));
    case "iptables":
    case "ip6tables":
    case "nft":
      return !args.every((arg) => /^-[LnvS]|^list|^ruleset/.test(arg));
    case "chmod":
      return paths.some((arg) => /^[0-7]?[4-7][0-7]{3}$|^[ugoa]*\+[rwx]*s/.test(arg));
    case "docker":
    case "podman":
    case "nerdctl":
      return (
        args.some((arg) => hostOption.test(arg)) ||
        optionValues(command, "-v", "--volume", "--mount").some((mount) => hostMount.test(mount))
      );
    case "tee":
    case "truncate":
    case "rm":
    case "shred":
      return paths.some(isSystemPath);
    case "cp":
    case "mv":
    case "install":
    case "ln":
      return /^\/(?:etc|boot|proc|sys)\b/.test(paths.at(-1) ?? "") && isSystemPath(paths.at(-1)!);
    default:
      return editsInPlace(command) && paths.some(isSystemPath);
  }
}

/** Settings of git whose value is a command. */
const gitHook =
  /^(?:core\.(?:hookspath|fsmonitor|sshcommand|pager|editor|gitproxy)|credential\.(?:.{0,200}\.)?helper|filter\..{1,100}\.(?:clean|smudge|process)|alias\.[\w-]{1,60}=!)/i;
const harmlessHook = /^credential.*=(?:cache|store)?$|=(?:cat|less|vim?|nano|true|false|\.husky.*)?$/i;

function runsLater(command: ShellCommand): boolean {
  const paths = operands(command);
  const git = gitCommand(command);
  if (git) {
    const assigned = git.command === "config" ? [operands(git).join("=")] : [];
    return [...git.settings, ...assigned].some(
      (setting) => gitHook.test(setting) && !harmlessHook.test(setting),
    );
  }
  switch (command.name) {
    case "crontab":
      return !command.args.includes("-l") || paths.length > 0;
    case "tee":
      return paths.some(isStartupPath);
    case "cp":
    case "mv":
    case "install":
    case "ln":
      return isStartupPath(paths.at(-1) ?? "") || /(?:^|\/)\.git\/hooks\/?$/.test(paths.at(-1) ?? "");
    case "systemctl":
      return ["enable", "link", "edit"].includes(paths[0] ?? "");
    case "at":
    case "batch":
    case "launchctl":
    case "ssh-copy-id":
      return true;
    default:
      return editsInPlace(command) && paths.some(isStartupPath);
  }
}

const publishLine =
  /^(?:npm|pnpm|yarn|bun|lerna|cargo|poetry|uv|hatch|flit|pdm|vsce|ovsx) (?:un)?publish\b|^(?:python[\d.]* )?twine upload\b|^gem push\b|^(?:docker|podman|nerdctl|helm|oras) (?:\w+ )?push\b|^gh release create\b|^mvnw? .*\bdeploy\b|^goreleaser release\b/;

function publishes(command: ShellCommand): boolean {
  if (command.args.some((arg) => /^(?:--dry-run|--snapshot|--help|-h)$/.test(arg))) return false;
  return (
    publishLine.test(commandLine(command)) || (command.name === "docker" && command.args.includes("--push"))
  );
}
