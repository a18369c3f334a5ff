import { type Analysis, analyseScript, type Step } from "../shell/analysis.ts";
import { type Invocation, operands, optionValues } from "../shell/invocation.ts";
import { isOutside } from "./addresses.ts";
import { isCredentialPath } from "./paths.ts";

const senders = new Set([
  "nc",
  "ncat",
  "netcat",
  "socat",
  "ssh",
  "telnet",
  "mail",
  "mailx",
  "mutt",
  "sendmail",
  "msmtp",
  "swaks",
  "sftp",
  "lftp",
  "ftp",
  "tftp",
  "openssl",
]);
/** A variable that holds a secret, by its name. */
const secretVariable =
  /\$\{?[A-Za-z0-9_]{0,60}(?:SECRET|TOKEN|PASSW(?:OR)?D|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIAL)[A-Za-z0-9_]{0,60}/i;
const encoders = new Set([
  "base64",
  "base32",
  "xxd",
  "od",
  "hexdump",
  "gzip",
  "bzip2",
  "xz",
  "tar",
  "zip",
  "openssl",
  "env",
  "printenv",
  "gpg",
  "whoami",
  "hostname",
  "id",
]);

/** Sends files, the environment, or what programs print out of the sandbox. */
export function sendsOut({ steps }: Analysis): boolean {
  return steps.some((step) => sendsData(step) || copiesOut(step.run) || hidesInNames(step.run) || hidesInAddress(step.run));
}

function sendsData({ run, before }: Step): boolean {
  const { name, args, redirects } = run;
  const piped = before.length > 0;
  const readsFile = redirects.some(({ operator }) => operator === "<");
  if (name === "curl" || name === "wget" || ["http", "https", "xh", "httpie"].includes(name)) {
    if (!addressesOf(run).some(isOutside)) return false;
    return uploads(run, piped || readsFile);
  }
  if (!senders.has(name) || (!piped && !readsFile)) return false;
  if (name === "ssh") return readsFile || !before.every((one) => ["echo", "printf", "yes"].includes(one.name));
  if (name === "openssl")
    return args[0] === "s_client" && piped && !before.every(({ name: source }) => ["echo", "true", "printf"].includes(source));
  if (["nc", "ncat", "netcat", "telnet", "socat"].includes(name)) {
    const listens = args.some((arg) => /^-[a-z]*l/.test(arg)) || args.some((arg) => /-listen/i.test(arg));
    const said =
      before.length > 0 &&
      before.every(
        (one) =>
          ["echo", "printf"].includes(one.name) && one.nested.length === 0 && !one.args.some((arg) => secretVariable.test(arg)),
      );
    const hosts = operands(run).map((arg) => arg.replace(/^(?:tcp|udp|openssl)[46]?:/i, ""));
    return !listens && !said && hosts.some((host) => !/^\d{1,5}$/.test(host) && isOutside(host));
  }
  return true;
}

/** Options of curl and wget whose value is no address. */
const takesValue =
  /^(?:-[a-zA-Z]{0,6}[dFHXouAeTbcmwxYyrCEKzP]|--(?:data[a-z-]*|json|form[a-z-]*|header|request|output|user|user-agent|referer|upload-file|cookie|cookie-jar|max-time|connect-timeout|write-out|proxy|retry[a-z-]*|post-file|post-data|body-file|body-data|output-document|method|timeout|tries))$/;

function addressesOf(run: Invocation): string[] {
  const plain = run.args.filter((arg, index) => !arg.startsWith("-") && !takesValue.test(run.args[index - 1] ?? ""));
  return [...plain, ...optionValues(run, "--url")];
}

/** Whether curl or wget send more than what stands in the command itself. */
function uploads(run: Invocation, hasInput: boolean): boolean {
  const { name, args } = run;
  if (name === "wget")
    return (
      optionValues(run, "--post-file", "--body-file").length > 0 ||
      optionValues(run, "--post-data", "--body-data").some(tellsSecret) ||
      args.some(tellsSecretInAddress)
    );
  if (name !== "curl") return hasInput || args.some((arg) => /^[\w.-]{1,60}(?::=|=)?@./.test(arg) && !/^https?:/.test(arg));
  if (optionValues(run, "-T", "--upload-file").length > 0) return true;
  const data = optionValues(run, "-d", "--data", "--data-binary", "--data-ascii", "--data-urlencode", "--json");
  const forms = optionValues(run, "-F", "--form");
  const fromFile = data.some((value) => /^(?:[\w.[\]-]{0,60}=?)?@./.test(value) && (value !== "@-" || hasInput));
  return (
    fromFile ||
    forms.some((value) => /=[@<]./.test(value)) ||
    [...data, ...forms].some(tellsSecret) ||
    args.some(tellsSecretInAddress) ||
    hidesInData(run)
  );
}

const tellsSecret = (value: string) => secretVariable.test(value);

/** A key in an address ends in logs. One before the host's name is a login. */
function tellsSecretInAddress(arg: string): boolean {
  const address = /^[a-z]+:\/\/(?:[^/@]{0,500}@)?(.*)$/is.exec(arg.slice(0, 5_000))?.[1];
  return address !== undefined && secretVariable.test(address);
}

function hidesInData(run: Invocation): boolean {
  const given = optionValues(
    run,
    "-d",
    "--data",
    "--data-binary",
    "--data-raw",
    "--data-urlencode",
    "--json",
    "-F",
    "--form",
    "-H",
    "--header",
  ).some((value) => value.includes("$()"));
  return given && run.nested.some(takesMuch);
}

/** Reads files or the environment, to send them on. */
function takesMuch(script: string): boolean {
  const { steps } = analyseScript(script);
  return steps.some(
    ({ run }) =>
      encoders.has(run.name) ||
      (["cat", "head", "tail"].includes(run.name) && run.args.some((arg) => isCredentialPath(arg) || arg.startsWith("/etc/"))),
  );
}

function hidesInAddress(run: Invocation): boolean {
  if (!["curl", "wget", "http", "https", "xh", "fetch", "aria2c"].includes(run.name)) return false;
  const addresses = addressesOf(run).filter(isOutside);
  return addresses.some((address) => address.includes("$()")) && run.nested.some(takesMuch);
}

/** Data in the name that is looked up reaches whoever answers for the domain. */
function hidesInNames(run: Invocation): boolean {
  if (!["dig", "nslookup", "host", "drill", "ping", "ping6", "resolvectl", "getent", "kdig", "doggo"].includes(run.name))
    return false;
  const names = operands(run).filter((arg) => /\.[a-z]/i.test(arg));
  return names.some(
    (name) =>
      (name.includes("$()") && run.nested.length > 0) ||
      secretVariable.test(name) ||
      (/\$[({A-Za-z]/.test(name) && run.wrappers.includes("xargs")) ||
      /^[a-z0-9+/=_-]{50,}\./i.test(name) ||
      /^\$\{?[a-z_]/i.test(name),
  );
}

/** Copies to another machine or into a cloud's store. */
function copiesOut(run: Invocation): boolean {
  const { name, args } = run;
  const paths = operands(run);
  const last = paths.at(-1) ?? "";
  switch (name) {
    case "scp":
    case "rsync":
      return paths.length > 1 && isRemote(last) && !isRemote(paths[0]!);
    case "rclone":
      return ["copy", "sync", "move", "copyto", "moveto"].includes(paths[0] ?? "") && /^[\w-]{1,60}:/.test(last);
    case "aws":
      return (
        paths[0] === "s3" &&
        ["cp", "sync", "mv"].includes(paths[1] ?? "") &&
        paths.some((path, index) => index > 2 && path.startsWith("s3://")) &&
        !paths[2]!.startsWith("s3://")
      );
    case "gsutil":
    case "gcloud":
    case "s3cmd":
    case "mc":
    case "azcopy":
      return (
        paths.some((path, index) => index > 1 && /^(?:gs|s3|https):\/\//.test(path) && path === last) &&
        paths.some((path) => ["cp", "put", "sync", "rsync", "copy", "mv"].includes(path))
      );
    case "gh":
      return paths[0] === "gist" && paths[1] === "create";
    case "curl":
      return optionValues(run, "-T", "--upload-file").length > 0 && paths.some((path) => /^(?:ftps?|sftp|scp):\/\//.test(path));
    case "croc":
    case "wormhole":
      return ["send"].includes(args[0] ?? "");
    case "ngrok":
    case "cloudflared":
    case "bore":
    case "localtunnel":
    case "lt":
      return args[0] !== "version" && args[0] !== "--version";
    default:
      return false;
  }
}

/** `host:path` and `rsync://…`; not `C:\…`, nor a path with a colon in it. */
function isRemote(path: string): boolean {
  return /^(?:rsync|scp|sftp):\/\//.test(path) || /^(?:[^/:@]{1,100}@)?[^/:]{2,200}:/.test(path);
}
