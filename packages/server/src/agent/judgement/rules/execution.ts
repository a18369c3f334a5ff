import { type Analysis, analyseScript, readsInput, type Step } from "../shell/analysis.ts";
import { type Invocation, isInterpreter, isShell, operands, optionValues } from "../shell/invocation.ts";
import { isOutside } from "./addresses.ts";

const fetchers = new Set([
  "curl",
  "wget",
  "fetch",
  "aria2c",
  "axel",
  "lynx",
  "w3m",
  "http",
  "https",
  "httpie",
  "xh",
  "lwp-request",
  "nc",
  "ncat",
  "netcat",
  "socat",
  "ftp",
  "tftp",
  "gsutil",
  "get",
  "iwr",
  "invoke-webrequest",
]);

/** Programs that take text from the network. */
export function isFetcher({ name, args }: Invocation): boolean {
  if (name === "openssl") return args[0] === "s_client";
  if (!fetchers.has(name)) return false;
  const addresses = operands({ args }).filter((arg) => /^[a-z][a-z0-9+.-]*:\/\/|^[\w.-]+(?::\d+)?(?:\/|$)/i.test(arg));
  // What the sandbox serves itself is its own.
  return addresses.length === 0 || !addresses.every((address) => /^(?:[a-z]+:\/\/)?(?:localhost|127\.|\[?::1)/i.test(address));
}

/** Programs that turn text into something that nobody has read. */
function isDecoder({ name, args }: Invocation): boolean {
  if (["base64", "base32", "basenc", "gbase64"].includes(name))
    return args.some((arg) => /^(?:-[a-zA-Z]*[dD]|--decode)/.test(arg));
  if (name === "xxd") return args.some((arg) => /^-[a-z]*r/.test(arg));
  if (name === "openssl") return args.some((arg) => arg === "-d") || args.includes("-base64");
  return ["uudecode", "rev", "unhex", "gpg"].includes(name) || (name === "tr" && args.some((arg) => arg.length > 10));
}

const isRunner = ({ name, args }: Invocation) =>
  ((isShell(name) || isInterpreter(name)) && readsInput({ name, args })) ||
  ["iex", "invoke-expression", "at", "batch"].includes(name) ||
  (["docker", "podman", "kubectl"].includes(name) && args[0] === "exec" && isShell(baseName(args.at(-1)!))) ||
  (name === "source" && args[0] === "/dev/stdin");

/** Runs what comes from the network, or what only a decoder can read: `curl … | sh`, `bash <(curl …)`, `eval "$(…)"`, and the same in two steps. */
export function runsUnread({ steps, assignments }: Analysis, script: string): boolean {
  const fetched = new Set<string>();
  const isUnread = (one: Invocation) => isFetcher(one) || isDecoder(one);
  const bringsAny = steps.some(({ run }) => isUnread(run));
  const tainted = new Set(assignments.filter(({ nested }) => nested.some(bringsUnread)).map(({ name }) => name));
  return steps.some(({ run, before }) => {
    const isBrought = before.some(isUnread);
    if (isRunner(run) && (isBrought || (bringsAny && before.some(({ name }) => isDefined(name, script))))) return true;
    // `curl … | while read line; do $line; done`
    if (isBrought && /^\$\{?[a-z_]/i.test(run.program)) return true;
    if (isBrought && runsItsWords(run) && run.args.some((arg) => /\$\{?[a-z_]/i.test(arg))) return true;
    // `curl … | tee >(sh)`
    if ((isBrought || isUnread(run)) && run.nested.some((inner) => analyseScript(inner).steps.some((step) => isRunner(step.run))))
      return true;
    // `curl … | xargs -I{} sh -c {}`
    if (isShell(run.name) && run.wrappers.includes("xargs") && isBrought) return true;
    if (runsItsWords(run) && (run.nested.some(bringsUnread) || namesVariable(run, tainted))) return true;
    for (const file of savedBy(run, before)) fetched.add(file);
    return runsFile(run, fetched);
  });
}

/** Whether a script makes a function or an alias of this name, so that nobody sees by the name what it runs. */
function isDefined(name: string, script: string): boolean {
  const text = script.slice(0, 100_000);
  return [`${name}()`, `${name} ()`, `function ${name}`, `alias ${name}=`].some((definition) => text.includes(definition));
}

function runsItsWords({ name, program }: Invocation): boolean {
  return (
    isShell(name) || isInterpreter(name) || ["eval", "source", ".", "su", "trap"].includes(name) || program.startsWith("$()")
  );
}

function bringsUnread(script: string): boolean {
  const { steps } = analyseScript(script);
  const saysIt = (step: Step) => isDecoder(step.run) || (isFetcher(step.run) && !steps.some(({ run }) => parsers.has(run.name)));
  return steps.some(saysIt);
}

/** What they give is an answer to a question, and not a script that somebody sent. */
const parsers = new Set(["jq", "grep", "sed", "awk", "cut", "yq", "head", "tail", "wc", "sha256sum"]);

function namesVariable({ args, input, program }: Invocation, names: ReadonlySet<string>): boolean {
  if (names.size === 0) return false;
  return [...args, input ?? "", program].some((text) =>
    [...text.slice(0, 10_000).matchAll(/\$\{?([A-Za-z_]\w{0,100})/g)].some(([, name]) => names.has(name!)),
  );
}

/** Files in which a program leaves what came from the network. */
function savedBy(run: Invocation, before: readonly Invocation[]): string[] {
  const redirected = run.redirects.filter(({ operator }) => operator.startsWith(">")).map(({ target }) => target);
  if (!isFetcher(run)) {
    const written = run.name === "tee" ? [...operands(run), ...redirected] : redirected;
    return before.some(isFetcher) ? written.map(baseName) : [];
  }
  const named = run.name === "wget" ? optionValues(run, "-O", "--output-document") : optionValues(run, "-o", "--output");
  const keepsName = run.name === "wget" || run.args.some((arg) => /^-[a-zA-Z]*O/.test(arg) || arg === "--remote-name");
  const fromAddress =
    keepsName && named.length === 0 ? operands(run).map((address) => address.split(/[?#]/, 1)[0]!.split("/").at(-1)!) : [];
  return [...named, ...redirected, ...fromAddress]
    .filter((file) => file !== "-" && file !== "/dev/null" && file !== "")
    .map(baseName);
}

function runsFile(run: Invocation, fetched: ReadonlySet<string>): boolean {
  if (fetched.size === 0) return false;
  if (run.program.includes("/") && fetched.has(baseName(run.program))) return true;
  if (isShell(run.name) || isInterpreter(run.name) || run.name === "source" || run.name === ".")
    return fetched.has(baseName(operands(run)[0] ?? ""));
  return (run.name === "dpkg" || run.name === "rpm") && run.args.some((arg) => fetched.has(baseName(arg)));
}

const baseName = (path: string) => path.slice(path.lastIndexOf("/") + 1);

/** A shell that somebody else holds the other end of. */
export function isReverseShell({ steps, redirects, code }: Analysis): boolean {
  const device = redirects.some(({ target }) => leadsOutside(target));
  const words = steps.some(({ run }) => run.args.some(leadsOutside));
  const handsOver = steps.some(({ run: { name, args } }) => {
    if (["nc", "ncat", "netcat"].includes(name))
      return args.some((arg) => /^-[a-z]*[ec]$/.test(arg) || arg === "--exec" || arg === "--sh-exec");
    return name === "socat" && args.some((arg) => /^(?:exec|system):/i.test(arg));
  });
  return (
    device ||
    words ||
    handsOver ||
    code.some((text) => /\bsocket\b/i.test(text) && /pty\.spawn|dup2|\/bin\/(?:ba)?sh|subprocess|exec\s*\(?["']/.test(text))
  );
}

function leadsOutside(path: string): boolean {
  const host = /\/dev\/(?:tcp|udp)\/([^/]{1,200})\//.exec(path.slice(0, 1_000))?.[1];
  return host !== undefined && (host.includes("$") || isOutside(host));
}

/** Code of other languages that fetches code and runs it. */
export function fetchesCode({ code }: Analysis): boolean {
  return code.some(
    (text) =>
      /\b(?:urlopen|urlretrieve|requests\.get|httpx\.get|fetch|http\.get|https\.get|open-uri|LWP::Simple|file_get_contents)\b/.test(
        text,
      ) && /\b(?:exec|eval|compile|system|passthru|shell_exec|execSync|Function)\s*\(/.test(text),
  );
}

const isAddress = (word: string) => /^(?:[\w.-]{1,100} ?@ ?)?(?:git\+\w+:|https?:\/\/|git:\/\/|github:)/.test(word);

/** Runs or installs a package from an address in the place of a registry, where nobody else has seen it: `npx https://…`, `pip install git+https://…`. */
export function runsFromAddress({ steps }: Analysis): boolean {
  return steps.some(({ run }) => fetchedPackages(run).some(isAddress) || isGoProgram(run));
}

/** What a program that fetches packages is told to run, or to install, which runs their scripts. */
function fetchedPackages(run: Invocation): string[] {
  const words = operands(run);
  const [verb = "", first = ""] = words;
  if (["npx", "bunx", "pnpx", "uvx"].includes(run.name)) return [verb, ...optionValues(run, "--from", "--package", "-p")];
  if (["pnpm", "yarn", "npm", "bun"].includes(run.name) && ["dlx", "exec", "x"].includes(verb)) return [first];
  if (run.name === "deno") return ["run", "install", "serve"].includes(verb) ? [first] : [];
  if (run.name === "cargo") return verb === "install" ? optionValues(run, "--git") : [];
  if (!/^(?:npm|pnpm|yarn|bun|pip[0-9.]*|pipx|uv|gem|poetry)$/.test(run.name)) return [];
  const at = words.findIndex((word) => /^(?:install|i|add)$/.test(word));
  const sources = optionValues(run, "-i", "--index-url", "--extra-index-url", "--registry", "-f", "--find-links", "--proxy");
  return at < 0 ? [] : words.slice(at + 1).filter((word) => !sources.includes(word));
}

/** `go run example.com/x@latest` */
function isGoProgram(run: Invocation): boolean {
  const [verb = "", first = ""] = operands(run);
  return run.name === "go" && verb === "run" && /^[\w-]+\.[\w.-]+\/.*@/.test(first);
}
