import type { Analysis } from "../shell/analysis.ts";
import { type Invocation, operands, optionValues } from "../shell/invocation.ts";
import { isOutside } from "./addresses.ts";
import { isRegistryPath, isStartupPath } from "./paths.ts";
import { gitCommand } from "./version-control.ts";

/** Gives something to everybody: packages, images, releases. */
export function publishes({ steps }: Analysis): boolean {
  return steps.some(({ run }) => {
    const { name, args } = run;
    if (args.some((arg) => /^--(?:dry-run|snapshot|help)$/.test(arg)) || args.includes("-h")) return false;
    const words = operands(run);
    const [first = "", second = ""] = words;
    switch (name) {
      case "npm":
      case "pnpm":
      case "yarn":
      case "bun":
      case "lerna":
      case "changeset":
        return (
          ["publish", "unpublish", "deprecate", "dist-tag", "owner", "login", "adduser", "access"].includes(
            first === "npm" ? second : first,
          ) &&
          !(first === "dist-tag" && second === "ls") &&
          !(first === "owner" && second === "ls")
        );
      case "npx":
      case "bunx":
        return (
          /^(?:semantic-release|np|lerna|changeset|release-it)(?:@|$)/.test(first) &&
          (first.startsWith("semantic-release") ||
            first.startsWith("np") ||
            words.includes("publish") ||
            first.startsWith("release-it"))
        );
      case "semantic-release":
      case "release-it":
        return true;
      case "twine":
        return first === "upload";
      case "poetry":
      case "flit":
      case "hatch":
      case "uv":
      case "pdm":
      case "cargo":
      case "vsce":
      case "ovsx":
        return first === "publish";
      case "goreleaser":
        return first === "release" || first === "publish";
      case "gem":
        return first === "push" || first === "yank";
      case "docker":
      case "podman":
      case "nerdctl":
      case "helm":
      case "oras":
      case "crane":
        return first === "push" || second === "push" || args.includes("--push");
      case "skopeo":
        return first === "copy" && /^docker:\/\//.test(words.at(-1) ?? "");
      case "mvn":
      case "mvnw":
        return words.includes("deploy") || words.some((word) => word.startsWith("release:"));
      case "gradle":
      case "gradlew":
        return words.some((word) => /^(?:[\w:-]{0,60}:)?publish(?!ToMavenLocal)/.test(word));
      case "dotnet":
        return first === "nuget" && second === "push";
      case "gh":
        return first === "release" && ["create", "upload", "edit"].includes(second);
      default:
        return isPython(name) && words.some((word) => /setup\.py$/.test(word))
          ? words.includes("upload")
          : isPython(name) && optionValues(run, "-m").includes("twine") && words.includes("upload");
    }
  });
}

const isPython = (name: string) => /^python[0-9.]*$/.test(name);

const knownRegistries =
  /^https?:\/\/(?:registry\.(?:npmjs\.org|yarnpkg\.com)|(?:test\.)?pypi\.org|files\.pythonhosted\.org|download\.pytorch\.org|pypi\.nvidia\.com)(?:[:/]|$)/;

/** Changes from where packages come, or what runs when they are installed. */
export function changesPackageSources({ steps, redirects }: Analysis): boolean {
  const written = redirects.some(({ operator, target }) => operator.includes(">") && isRegistryPath(target));
  return (
    written ||
    steps.some(({ run }) => {
      if (run.name === "tee" && operands(run).some(isRegistryPath)) return true;
      return usesOtherRegistry(run) || setsRegistry(run);
    })
  );
}

const isOtherRegistry = (address: string) => isOutside(address) && !knownRegistries.test(address);

function usesOtherRegistry(run: Invocation): boolean {
  const { name } = run;
  if (["npm", "pnpm", "yarn", "bun", "npx"].includes(name)) return optionValues(run, "--registry").some(isOtherRegistry);
  const isPip = /^pip[0-9.]*$/.test(name) || name === "uv" || (isPython(name) && optionValues(run, "-m").includes("pip"));
  return (
    isPip &&
    optionValues(run, "-i", "--index-url", "--extra-index-url", "--index", "--default-index", "--find-links").some(
      isOtherRegistry,
    )
  );
}

function setsRegistry(run: Invocation): boolean {
  const words = operands(run);
  const line = words.slice(0, 4).join(" ");
  switch (run.name) {
    case "npm":
    case "pnpm":
    case "yarn":
      return (
        /^(?:config set|set) (?:[^ ]*registry|[^ ]*_auth|[^ ]*_password|ignore-scripts|npmRegistryServer|script-shell|unsafe-perm)/i.test(
          line,
        ) || /^pkg set scripts\.(?:pre|post)?(?:install|pack|publish)/.test(line)
      );
    case "pip":
    case "pip3":
      return /^config set [\w.]*(?:index-url|trusted-host|find-links)/.test(line);
    case "poetry":
      return /^source add/.test(line);
    case "gem":
      return words[0] === "sources" && run.args.some((arg) => /^(?:-a|--add|-r|--remove)$/.test(arg));
    case "apt-key":
    case "add-apt-repository":
      return true;
    case "go":
      return words[0] === "env" && run.args.some((arg) => /^(?:GOPROXY|GOSUMDB|GONOSUMDB|GOFLAGS)=/.test(arg));
    default:
      return false;
  }
}

/** Leaves something that runs later by itself. */
export function persists({ steps, redirects }: Analysis): boolean {
  return (
    redirects.some(({ operator, target }) => operator.includes(">") && isStartupPath(target)) ||
    steps.some(({ run }) => {
      const words = operands(run);
      const git = gitCommand(run);
      if (git) {
        const all = [
          ...git.settings,
          ...(git.command === "config" ? [git.args.filter((arg) => !arg.startsWith("-")).join("=")] : []),
        ];
        return all.some(
          (setting) =>
            /^(?:core\.(?:hookspath|fsmonitor|sshcommand|pager|editor|gitproxy)|credential\.(?:.{0,200}\.)?helper|filter\..{1,100}\.(?:clean|smudge|process)|alias\.[\w-]{1,60}=!)/i.test(
              setting,
            ) && !/^credential.*=(?:cache|store)?$|=(?:cat|less|vim?|nano|true|false|\.husky.*)?$/i.test(setting),
        );
      }
      switch (run.name) {
        case "crontab":
          return !run.args.some((arg) => arg === "-l") || words.length > 0;
        case "tee":
          return words.some(isStartupPath);
        case "cp":
        case "mv":
        case "install":
        case "ln":
          return isStartupPath(words.at(-1) ?? "") || /(?:^|\/)\.git\/hooks\/?$/.test(words.at(-1) ?? "");
        case "sed":
          return run.args.some((arg) => /^-[a-zA-Z]*i|^--in-place/.test(arg)) && words.some(isStartupPath);
        case "systemctl":
          return ["enable", "link", "edit"].includes(words[0] ?? "");
        case "at":
        case "batch":
        case "launchctl":
        case "update-rc.d":
        case "chkconfig":
        case "ssh-copy-id":
          return true;
        case "loginctl":
          return words[0] === "enable-linger";
        default:
          return false;
      }
    })
  );
}
