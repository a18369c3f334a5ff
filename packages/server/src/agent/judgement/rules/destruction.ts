import type { Analysis, Step } from "../shell/analysis.ts";
import { quotedTexts } from "../shell/code.ts";
import { hasOption, type Invocation, operands, optionValues } from "../shell/invocation.ts";
import { isDevice, isRootOfAll, isSystemPath } from "./paths.ts";
import { gitCommand } from "./version-control.ts";

/** Calls of other languages that delete. */
const removes = /\b(?:rmtree|rmSync|rmdirSync|removeSync|rm_rf|rm_r|remove_dir_all|unlink|rimraf|emptyDir)\b|\brm\s{0,5}\(/;

/** Gives the names of all that is there. */
function listsAll({ name, args }: Invocation): boolean {
  if (name !== "find" && name !== "ls") return false;
  const chooses = args.some((arg) => /^-i?(?:name|path|regex|wholename)$/.test(arg));
  return !chooses && operands({ args }).slice(0, 1).some(isRootOfAll);
}

/** Deletes or overwrites far more than a project: the root, the home folder, what is above, the system. */
export function deletesAll({ steps, code }: Analysis): boolean {
  if (code.some((text) => removes.test(text) && quotedTexts(text).some(isRootOfAll))) return true;
  let isAtRoot = false;
  return steps.some(({ run, before }) => {
    const { name, args } = run;
    if (name === "cd" || name === "pushd") isAtRoot = isRootOfAll(operands(run)[0] ?? "~");
    if (name === "rm" && run.wrappers.includes("xargs") && before.some(listsAll)) return true;
    if (["rm", "srm", "shred", "unlink", "rimraf", "trash"].includes(name)) {
      if (args.includes("--no-preserve-root")) return true;
      const recursive = name !== "rm" || hasOption(run, "rR", "recursive");
      const takesAll = (path: string) => isRootOfAll(path) || (isAtRoot && /^(?:\.\/?)?\*?$/.test(path) && path !== "");
      return recursive && operands(run).some(takesAll);
    }
    if (name === "chmod" || name === "chown" || name === "chgrp")
      return hasOption(run, "R", "recursive") && operands(run).slice(1).some(isRootOfAll);
    if (name === "mv") return operands(run).at(-1) === "/dev/null" || operands(run).slice(0, -1).some(isRootOfAll);
    if (name === "find") {
      const deletes = (arg: string, index: number) =>
        arg === "-delete" || (arg.startsWith("-exec") && args[index + 1]?.endsWith("rm"));
      return listsAll(run) && args.some(deletes);
    }
    if (name === "rsync") return args.some((arg) => arg.startsWith("--delete")) && isRootOfAll(operands(run).at(-1) ?? "");
    return false;
  });
}

const fork = /([\w.:-]{1,20})\(\)\{[^{}]{0,40}?\1[|&]{1,2}\1&?[^{}]{0,10}\}?;?[^{}]{0,10}\}/;

/** Overwrites a disk or makes the machine stop. */
export function breaksMachine({ steps, redirects }: Analysis, text: string): boolean {
  if (redirects.some(({ operator, target }) => operator.includes(">") && isDevice(target))) return true;
  if (text.includes("()") && fork.test(text.slice(0, 10_000).replaceAll(/\s+/g, ""))) return true;
  return steps.some(({ run }) => {
    const { name, args } = run;
    if (
      /^(?:mkfs(?:\.\w+)?|mke2fs|mkswap|wipefs|fdisk|sfdisk|gdisk|sgdisk|parted|blkdiscard|hdparm|nvme|cryptsetup|pvremove|vgremove|lvremove|diskpart|format)$/.test(
        name,
      )
    )
      return (
        !args.every((arg) => /^(?:-l|--list|-h|--help|--version|-V|list)$/.test(arg)) &&
        args.some((arg) => isDevice(arg) || arg.startsWith("-") || /^\/dev\//.test(arg))
      );
    if (name === "dd") return args.some((arg) => arg.startsWith("of=") && isDevice(arg.slice(3)));
    if (["shred", "tee", "cp", "badblocks"].includes(name))
      return args.some(isDevice) && (name !== "cp" || isDevice(args.at(-1) ?? ""));
    if (["shutdown", "reboot", "halt", "poweroff", "telinit"].includes(name)) return true;
    if (name === "init") return args[0] === "0" || args[0] === "6";
    if (name === "systemctl") return ["poweroff", "reboot", "halt", "kexec", "rescue", "emergency"].includes(args[0] ?? "");
    return (
      (name === "kill" && args.includes("-1") && args.length > 1 && args.at(-1) === "-1") ||
      (name === "kill" && args.at(-1) === "1")
    );
  });
}

/** Reaches out of the sandbox, or changes the system that it is. */
export function reachesHost({ steps, redirects }: Analysis): boolean {
  return (
    redirects.some(({ operator, target }) => operator.includes(">") && isSystemPath(target)) ||
    steps.some((step) => isPrivileged(step) || writesSystem(step.run))
  );
}

function isPrivileged({ run }: Step): boolean {
  const { name, args, wrappers } = run;
  if (wrappers.includes("nsenter") || wrappers.includes("chroot") || name === "nsenter") return true;
  if (
    [
      "insmod",
      "modprobe",
      "rmmod",
      "kexec",
      "pivot_root",
      "visudo",
      "useradd",
      "adduser",
      "usermod",
      "groupadd",
      "userdel",
      "deluser",
      "passwd",
      "chpasswd",
      "setcap",
      "update-ca-certificates",
      "ufw",
      "setenforce",
    ].includes(name)
  )
    return true;
  if (name === "mount") return args.length > 1;
  if (name === "sysctl") return args.some((arg) => arg === "-w" || arg === "-p" || /^[\w.]+=/.test(arg));
  if (name === "iptables" || name === "ip6tables" || name === "nft")
    return !args.every((arg) => /^-[LnvS]|^list|^ruleset/.test(arg));
  if (name === "chmod") return operands(run).some((arg) => /^[0-7]?[4-7][0-7]{3}$/.test(arg) || /^[ugoa]*\+[rwx]*s/.test(arg));
  if (name === "docker" || name === "podman" || name === "nerdctl") return isHostContainer(run);
  return false;
}

function isHostContainer(run: Invocation): boolean {
  if (!["run", "create", "exec", "container", "compose"].includes(operands(run)[0] ?? "")) return false;
  const mounts = optionValues(run, "-v", "--volume", "--mount");
  return (
    run.args.some((arg) =>
      /^--(?:privileged|pid=host|net(?:work)?=host|userns=host|ipc=host|cap-add=(?:all|sys_admin)|security-opt=.{0,40}unconfined)/i.test(
        arg,
      ),
    ) ||
    mounts.some(
      (mount) =>
        /^(?:\/|\/etc|\/root|\/home|\/var\/run\/docker\.sock|\/run\/docker\.sock|\/proc|\/sys|\/dev):/.test(mount) ||
        /(?:source|src)=(?:\/|\/var\/run\/docker\.sock|\/etc)(?:,|$)/.test(mount),
    )
  );
}

function writesSystem(run: Invocation): boolean {
  const paths = operands(run);
  if (["tee", "truncate", "rm", "shred", "unlink"].includes(run.name)) return paths.some(isSystemPath);
  if (["cp", "mv", "install", "ln"].includes(run.name))
    return paths.length > 1 && /^\/etc\/|^\/boot|^\/proc|^\/sys/.test(paths.at(-1)!) && isSystemPath(paths.at(-1)!);
  if (run.name === "sed") return run.args.some((arg) => /^-[a-zA-Z]*i|^--in-place/.test(arg)) && paths.some(isSystemPath);
  return run.name === "dd" && run.args.some((arg) => arg.startsWith("of=") && isSystemPath(arg.slice(3)));
}

/** Takes away what runs elsewhere: machines, clusters, stores. */
export function destroysElsewhere({ steps }: Analysis): boolean {
  return steps.some(({ run }) => {
    const [first = "", second = "", third = ""] = operands(run);
    switch (run.name) {
      case "terraform":
      case "tofu":
      case "pulumi":
      case "cdk":
      case "terragrunt":
        return first === "destroy" || (first === "apply" && run.args.some((arg) => /^-{1,2}(?:auto-approve|destroy)/.test(arg)));
      case "kubectl":
      case "oc":
        return first === "delete" || first === "drain";
      case "helm":
        return first === "uninstall" || first === "delete";
      case "aws":
        return (first === "s3" && ["rm", "rb"].includes(second)) || /^(?:delete|terminate|deregister|remove|purge)-/.test(second);
      case "gcloud":
      case "az":
      case "doctl":
      case "heroku":
      case "flyctl":
      case "fly":
        return (
          [second, third, ...operands(run).slice(3, 6)].some((word) => /^(?:delete|destroy)$/.test(word)) ||
          /:destroy$/.test(first)
        );
      case "gsutil":
        return first === "rb" || (first === "rm" && hasOption(run, "rR"));
      default:
        return false;
    }
  });
}

/** Takes away what tells what was done. */
export function wipesHistory({ steps, redirects, assignments }: Analysis): boolean {
  const isHistory = (path: string) => /(?:^|\/)\.(?:bash|zsh|sh|python)_history$/.test(path) || /^\/var\/log(?:\/|$)/.test(path);
  return (
    steps.some(({ run }) => {
      const git = gitCommand(run);
      if (git) return false;
      if (run.name === "history") return hasOption(run, "cw");
      if (run.name === "unset" || run.name === "export")
        return run.args.some((arg) => /^HIST(?:FILE|SIZE|FILESIZE)(?:=(?:\/dev\/null|0)?)?$/.test(arg));
      if (run.name === "journalctl") return run.args.some((arg) => arg.startsWith("--vacuum"));
      return ["rm", "shred", "truncate", "unlink"].includes(run.name) && operands(run).some(isHistory);
    }) ||
    redirects.some(({ operator, target }) => operator === ">" && isHistory(target)) ||
    assignments.some(({ name, value }) => /^HIST(?:FILE|SIZE|FILESIZE)$/.test(name) && ["", "/dev/null", "0"].includes(value))
  );
}
