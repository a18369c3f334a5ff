import { isOutside } from "./addresses.ts";
import {
  baseName,
  isInterpreter,
  isShell,
  operands,
  optionValues,
  readsInput,
  type ShellCommand,
  type ShellScript,
} from "./commands.ts";

const downloaders = new Set(
  "curl wget fetch aria2c axel lynx w3m http https httpie xh nc ncat netcat socat ftp tftp gsutil".split(" "),
);

/** Whether a program prints a download; what the sandbox itself serves does not count. */
function isDownloader({ name, args }: ShellCommand): boolean {
  if (name === "openssl") return args[0] === "s_client";
  if (!downloaders.has(name)) return false;
  const addresses = operands({ args }).filter((arg) =>
    /^[a-z][a-z0-9+.-]*:\/\/|^[\w.-]+(?::\d+)?(?:\/|$)/i.test(arg),
  );
  return (
    addresses.length === 0 ||
    !addresses.every((address) => /^(?:[a-z]+:\/\/)?(?:localhost|127\.|\[?::1)/i.test(address))
  );
}

/** Whether a program prints text that its arguments do not show. */
function isDecoder({ name, args }: ShellCommand): boolean {
  if (name === "base64" || name === "base32")
    return args.some((arg) => /^-[a-zA-Z]*[dD]|^--decode/.test(arg));
  if (name === "xxd") return args.some((arg) => /^-[a-z]*r/.test(arg));
  return name === "uudecode" || (name === "openssl" && (args.includes("-d") || args.includes("-base64")));
}

const isUnread = (command: ShellCommand) => isDownloader(command) || isDecoder(command);

const runsInput = (command: ShellCommand) =>
  ((isShell(command.name) || isInterpreter(command.name)) && readsInput(command)) ||
  (["docker", "podman", "kubectl"].includes(command.name) &&
    command.args[0] === "exec" &&
    isShell(baseName(command.args.at(-1)!)));

const runsWords = ({ name, program }: ShellCommand) =>
  isShell(name) ||
  isInterpreter(name) ||
  ["eval", "source", ".", "su", "trap"].includes(name) ||
  /^"?(?:\$\(|`)/.test(program);

/** Programs whose output is an answer, not a script. */
const parsers = new Set(["jq", "grep", "sed", "awk", "cut", "yq", "head", "tail", "wc", "sha256sum"]);

/** Runs a download or decoded text: `curl … | sh`, `bash <(curl …)`, `curl -o x …; sh x`. */
export function runsDownload({ commands }: ShellScript): boolean {
  const saved = new Set<string>();
  return commands.some((command) => {
    const { before, nested, wrappers } = command;
    const isFed = before.some(isUnread);
    if (isFed && (runsInput(command) || (isShell(command.name) && wrappers.includes("xargs")))) return true;
    // `curl … | tee >(sh)`
    if ((isFed || isUnread(command)) && nested.some(runsInput)) return true;
    if (runsWords(command) && nested.some(isUnread) && !nested.some(({ name }) => parsers.has(name)))
      return true;
    if (runsFile(command, saved)) return true;
    for (const file of savedFiles(command)) saved.add(baseName(file));
    return false;
  });
}

/** The files in which a command saves a download. */
function savedFiles(command: ShellCommand): string[] {
  const redirected = command.redirects
    .filter(({ operator }) => operator.startsWith(">"))
    .map(({ target }) => target);
  if (!isDownloader(command)) {
    if (!command.before.some(isDownloader)) return [];
    return command.name === "tee" ? [...operands(command), ...redirected] : redirected;
  }
  const isWget = command.name === "wget";
  const named = isWget
    ? optionValues(command, "-O", "--output-document")
    : optionValues(command, "-o", "--output");
  const keepsName = isWget || command.args.some((arg) => /^-[a-zA-Z]*O|^--remote-name$/.test(arg));
  const fromAddress =
    keepsName && named.length === 0 ? operands(command).map((address) => address.split(/[?#]/, 1)[0]!) : [];
  return [...named, ...redirected, ...fromAddress].filter((file) => !["", "-", "/dev/null"].includes(file));
}

function runsFile({ name, program, args }: ShellCommand, saved: ReadonlySet<string>): boolean {
  if (saved.size === 0) return false;
  if (program.includes("/")) return saved.has(baseName(program));
  const isRunner = isShell(name) || isInterpreter(name) || name === "source" || name === ".";
  return isRunner && saved.has(baseName(operands({ args })[0] ?? ""));
}

/** Connects a shell to another machine. */
export function opensRemoteShell({ commands, redirects }: ShellScript): boolean {
  if (redirects.some(({ target }) => isOutsideSocket(target))) return true;
  return commands.some(({ name, args }) => {
    if (args.some(isOutsideSocket)) return true;
    if (name === "socat") return args.some((arg) => /^(?:exec|system):/i.test(arg));
    return (
      ["nc", "ncat", "netcat"].includes(name) &&
      args.some((arg) => /^-[a-z]*[ec]$|^--(?:sh-)?exec$/.test(arg))
    );
  });
}

function isOutsideSocket(path: string): boolean {
  const host = /\/dev\/(?:tcp|udp)\/([^/]{1,200})\//.exec(path.slice(0, 1_000))?.[1];
  return host !== undefined && (host.includes("$") || isOutside(host));
}
