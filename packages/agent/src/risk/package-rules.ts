import { isOutside } from "./addresses.ts";
import { commandLine, operands, optionValues, type ShellCommand } from "./commands.ts";
import { isRegistryPath } from "./paths.ts";

const knownRegistry =
  /^https?:\/\/(?:registry\.(?:npmjs\.org|yarnpkg\.com)|(?:test\.)?pypi\.org|files\.pythonhosted\.org|download\.pytorch\.org|pypi\.nvidia\.com)(?:[:/]|$)/;
const registryOptions = [
  "--registry",
  "-i",
  "--index-url",
  "--extra-index-url",
  "--index",
  "--default-index",
  "--find-links",
];
const installers = /^(?:npm|pnpm|yarn|bun|npx|bunx|pnpx|uvx|pipx|pip[\d.]*|uv|gem|poetry|cargo|deno)$/;
const changesSource =
  /^(?:npm|pnpm|yarn) (?:config )?set (?:\S*registry|\S*_auth|ignore-scripts|npmRegistryServer|script-shell)|^npm pkg set scripts\.(?:pre|post)?(?:install|pack|publish)|^pip[\d.]* config set [\w.]*(?:index-url|trusted-host|find-links)|^poetry source add|^(?:apt-key|add-apt-repository)\b|^go env GO(?:PROXY|SUMDB|NOSUMDB|FLAGS)=/i;
const address = /^(?:[\w.-]{1,100} ?@ ?)?(?:git\+\w+:|https?:\/\/|git:\/\/|github:)/;

/** Installs from an address or an unknown registry, or changes where packages come from. */
export function isForeignPackage(command: ShellCommand): boolean {
  const { name, args } = command;
  if (name === "tee") return operands(command).some(isRegistryPath);
  if (changesSource.test(commandLine(command))) return true;
  if (name === "go") return /^go run [\w-]+\.[\w.-]+\/\S*@/.test(commandLine(command));
  const isPipModule = /^python[\d.]*$/.test(name) && optionValues(command, "-m").includes("pip");
  if (!isPipModule && !installers.test(name)) return false;
  const registries = optionValues(command, ...registryOptions);
  if (registries.some((registry) => isOutside(registry) && !knownRegistry.test(registry))) return true;
  return installed(name, operands({ args }), command).some(
    (word) => address.test(word) && !registries.includes(word),
  );
}

/** The packages that a command installs or runs. */
function installed(name: string, words: readonly string[], command: ShellCommand): string[] {
  const [verb = "", first = ""] = words;
  if (["npx", "bunx", "pnpx", "uvx"].includes(name))
    return [verb, ...optionValues(command, "--from", "--package", "-p")];
  if (["dlx", "exec", "x"].includes(verb)) return [first];
  if (name === "deno") return ["run", "install", "serve"].includes(verb) ? [first] : [];
  if (name === "cargo") return verb === "install" ? optionValues(command, "--git") : [];
  const at = words.findIndex((word) => /^(?:install|i|add)$/.test(word));
  return at < 0 ? [] : words.slice(at + 1);
}
