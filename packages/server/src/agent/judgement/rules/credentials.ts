import type { Analysis, Step } from "../shell/analysis.ts";
import { quotedTexts } from "../shell/code.ts";
import { type Invocation, optionValues } from "../shell/invocation.ts";
import { namesMetadata } from "./addresses.ts";
import { isCredentialPath } from "./paths.ts";
import { gitCommand } from "./version-control.ts";

/** Programs that do not read the files which they name, or whose arguments are no files. */
const looksOnly = new Set(
  "ls ll stat test [ [[ touch mkdir echo printf cd pushd basename dirname realpath readlink chmod chown which type file du ssh-keygen ssh-keyscan ssh ssh-add ssh-agent export unset set alias read local declare for in case".split(
    " ",
  ),
);

/** Programs that read them to work with them, and show nothing of them. */
const usesOnly = new Set(["source", ".", "docker-compose"]);

/** Reads files with keys, tokens or passwords, asks a program for them, or the cloud's metadata service. */
export function readsCredentials({ steps, redirects, assignments, code }: Analysis): boolean {
  return (
    steps.some((step) => readsFile(step) || asksForSecret(step.run)) ||
    redirects.some(({ operator, target }) => operator === "<" && isCredentialPath(target)) ||
    steps.some(({ run }) => !said.has(run.name) && run.args.some(namesMetadata)) ||
    assignments.some(({ value }) => /^\d/.test(value) && namesMetadata(value)) ||
    code.some((text) => namesMetadata(text) || (opensFiles.test(text) && quotedTexts(text).some(isCredentialPath)))
  );
}

const said = new Set(["echo", "printf", "grep", "rg", "git", "sed", "ack", "ag"]);
const opensFiles = /\b(?:open|read|readFile|readFileSync|read_text|cat|load|File|slurp|file_get_contents|expanduser|while)\b|</;

function readsFile({ run }: Step): boolean {
  const { name, args } = run;
  if (looksOnly.has(name) || usesOnly.has(name)) return false;
  const git = gitCommand(run);
  if (git)
    return (
      ["diff", "show", "hash-object"].includes(git.command) && git.args.includes("--no-index") && git.args.some(isCredentialPath)
    );
  const isFound = (arg: string, index: number) => /^-i?name$/.test(args[index - 1] ?? "") && isCredentialPath(arg);
  if (name === "find" && args.some(isFound) && args.some((arg) => arg.startsWith("-exec"))) return true;
  return filesOf(name, args).some((arg) =>
    [arg, arg.slice(arg.search(/[=@]/) + 1), arg.replace(/^file:\/\//i, "")].some(isCredentialPath),
  );
}

/** The arguments that are files to read: a pattern to look for is none, nor is the place to which something is copied. */
function filesOf(name: string, args: readonly string[]): readonly string[] {
  const plain = args.filter((arg) => !arg.startsWith("-") || arg.includes("="));
  if (["grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk"].includes(name)) {
    const givesPattern = args.some((arg) => /^-[a-z]*[ef]/.test(arg));
    return plain.slice(givesPattern ? 0 : 1).filter((arg) => !arg.startsWith("--"));
  }
  if (name === "find" || name === "fd") return plain.slice(0, 1).filter((arg) => arg.includes("/"));
  if (["cp", "mv", "install", "rsync", "ln"].includes(name) && plain.length > 1) return plain.slice(0, -1);
  if (name === "docker" || name === "podman")
    return optionValues({ args: [...args] }, "-v", "--volume").map((mount) => mount.split(":", 1)[0]!);
  if (name === "tee") return [];
  return plain;
}

/** Programs that print a secret when they are asked. */
function asksForSecret(run: Invocation): boolean {
  const { name, args } = run;
  const words = args.filter((arg) => !arg.startsWith("-"));
  const line = words.slice(0, 4).join(" ");
  const git = gitCommand(run);
  if (git) return git.command === "credential" && git.args[0] === "fill";
  switch (name) {
    case "gh":
    case "glab":
      return (
        line.startsWith("auth token") || (line.startsWith("auth status") && args.some((arg) => /^(?:-t|--show-token)$/.test(arg)))
      );
    case "aws":
      return (
        /^(?:configure (?:get .{0,40}(?:secret|token)|export-credentials)|sts (?:get-session-token|assume-role)|secretsmanager get-secret-value|ecr get-login-password)/.test(
          line,
        ) ||
        (line.startsWith("ssm get-parameter") && args.includes("--with-decryption"))
      );
    case "gcloud":
      return /^auth (?:application-default )?print-(?:access|identity)-token|^secrets versions access/.test(line);
    case "az":
      return /^account get-access-token|^keyvault secret show/.test(line);
    case "kubectl":
    case "oc":
      return (
        (words.includes("secret") || words.includes("secrets") || words.some((word) => /^secrets?\//.test(word))) &&
        words.includes("get") &&
        args.some((arg) => /^(?:-o|--output)/.test(arg) && !/wide|name/.test(arg))
      );
    case "vault":
      return /^(?:kv get|read|print token|token lookup)/.test(line);
    case "security":
      return /^(?:find-(?:generic|internet)-password|dump-keychain)/.test(line);
    case "pass":
    case "op":
    case "secret-tool":
      return /^(?:show|read|item get|lookup|get)/.test(line);
    case "ssh-add":
      return args.includes("-L");
    case "gpg":
      return args.some((arg) => arg.startsWith("--export-secret"));
    case "npm":
      return /^(?:token|config get .{0,200}(?:_authToken|_auth|_password))/.test(line);
    case "getent":
      return words[0] === "shadow";
    default:
      return false;
  }
}
