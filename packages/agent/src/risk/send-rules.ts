import { isOutside } from "./addresses.ts";
import { operands, optionValues, type ShellCommand } from "./commands.ts";
import { isCredentialPath } from "./paths.ts";

/** A variable that holds a secret, by its name. */
const secretVariable =
  /\$\{?[A-Za-z0-9_]{0,60}(?:SECRET|TOKEN|PASSW(?:OR)?D|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIAL)[A-Za-z0-9_]{0,60}/i;
const substitution = /\$\(|`/;
/** Programs that print files or the environment in a form to be sent. */
const packers = new Set("base64 base32 xxd od gzip bzip2 xz tar zip openssl env printenv gpg".split(" "));
const says = new Set(["echo", "printf", "yes", "true"]);

/** Sends files, the environment or secrets out of the sandbox. */
export function sendsData(command: ShellCommand): boolean {
  const { name, before } = command;
  if (["curl", "wget", "http", "https", "xh", "httpie"].includes(name)) return uploads(command);
  if (copiesOut(command)) return true;
  const readsFile = command.redirects.some(({ operator }) => operator === "<");
  const isFed =
    readsFile || (before.length > 0 && !before.every((one) => says.has(one.name) && !sendsSecret(one)));
  if (!isFed) return false;
  if (name === "openssl") return command.args[0] === "s_client";
  if (["nc", "ncat", "netcat", "telnet", "socat"].includes(name)) {
    if (command.args.some((arg) => /^-[a-z]*l|-listen/i.test(arg))) return false;
    const hosts = operands(command).map((arg) => arg.replace(/^(?:tcp|udp|openssl)[46]?:/i, ""));
    return hosts.some((host) => !/^\d{1,5}$/.test(host) && isOutside(host));
  }
  return ["ssh", "mail", "mailx", "mutt", "sendmail", "sftp", "lftp", "ftp", "tftp"].includes(name);
}

const sendsSecret = ({ args, nested }: ShellCommand) =>
  nested.length > 0 || args.some((arg) => secretVariable.test(arg));

/** Options of curl and wget whose value is not an address. */
const takesValue =
  /^(?:-[a-zA-Z]{0,6}[dFHXouAeTbcmwxYyrCEKzP]|--(?:data[a-z-]*|json|form[a-z-]*|header|request|output|user|user-agent|referer|upload-file|cookie|cookie-jar|max-time|connect-timeout|write-out|proxy|retry[a-z-]*|post-file|post-data|body-file|body-data|output-document|method|timeout|tries))$/;

/** Whether an HTTP client sends a file, its input, a secret or packed data to another machine. */
function uploads(command: ShellCommand): boolean {
  const { name, args, before, redirects, nested } = command;
  const plain = args.filter((arg, index) => !arg.startsWith("-") && !takesValue.test(args[index - 1] ?? ""));
  const addresses = [...plain, ...optionValues(command, "--url")];
  if (!addresses.some(isOutside)) return false;
  const packs = nested.some(
    (one) =>
      packers.has(one.name) || one.args.some((arg) => isCredentialPath(arg) || arg.startsWith("/etc/")),
  );
  const isSecret = (value: string) => secretVariable.test(value) || (packs && substitution.test(value));
  // A secret before the host is a login; behind it, it ends up in logs.
  if (
    addresses.some((address) =>
      isSecret(address.slice(0, 5_000).replace(/^([a-z]+:\/\/)[^/@]{0,500}@/i, "$1")),
    )
  )
    return true;
  if (name === "wget")
    return (
      optionValues(command, "--post-file", "--body-file").length > 0 ||
      optionValues(command, "--post-data", "--body-data").some(isSecret)
    );
  const hasInput = before.length > 0 || redirects.some(({ operator }) => operator === "<");
  if (name !== "curl") return hasInput || args.some((arg) => /^[\w.-]{1,60}(?::=|=)?@./.test(arg));
  const data = optionValues(
    command,
    "-d",
    "--data",
    "--data-binary",
    "--data-ascii",
    "--data-urlencode",
    "--json",
  );
  const forms = optionValues(command, "-F", "--form");
  return (
    optionValues(command, "-T", "--upload-file").length > 0 ||
    data.some((value) => /^(?:[\w.[\]-]{0,60}=?)?@./.test(value) && (value !== "@-" || hasInput)) ||
    forms.some((value) => /=[@<]./.test(value)) ||
    [...data, ...forms].some(isSecret)
  );
}

/** Copies to another machine or into a cloud's store. */
function copiesOut(command: ShellCommand): boolean {
  const paths = operands(command);
  const last = paths.at(-1) ?? "";
  switch (command.name) {
    case "scp":
    case "rsync":
      return paths.length > 1 && isRemote(last) && !isRemote(paths[0]!);
    case "rclone":
      return (
        ["copy", "sync", "move", "copyto", "moveto"].includes(paths[0] ?? "") && /^[\w-]{1,60}:/.test(last)
      );
    case "aws":
    case "gsutil":
    case "gcloud":
    case "s3cmd": {
      const copies = paths.some((path) => ["cp", "put", "sync", "rsync", "mv"].includes(path));
      return copies && /^(?:gs|s3):\/\//.test(last) && !/^(?:gs|s3):\/\//.test(paths.at(-2)!);
    }
    default:
      return command.name === "gh" && paths[0] === "gist" && paths[1] === "create";
  }
}

/** `host:path` and `rsync://…`; neither `C:\…` nor a path with a colon in it. */
function isRemote(path: string): boolean {
  return /^(?:rsync|scp|sftp):\/\//.test(path) || /^(?:[^/:@]{1,100}@)?[^/:]{2,200}:/.test(path);
}
