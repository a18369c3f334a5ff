import { SettingsUpdate, SettingsView } from "@sandpiper/wire";
import type { Command } from "commander";
import { connect } from "./connect.ts";
import { listConversations, shortId } from "./conversations.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inertLine } from "./inert.ts";
import { loadConfig } from "./load-config.ts";
import { findServer } from "./server-file.ts";
import { isDescribed } from "./settings.ts";

interface Word {
  word: string;
  about: string;
}

interface Entry {
  /** Words that select the command, such as `settings get`; empty for the program. */
  path: string;
  /** Subcommands, or values of the first argument. */
  words: readonly Word[];
  options: readonly Word[];
}

/** Commands whose argument is the id of a conversation. */
const takesIds = ["show", "logs", "stop", "rm", "export"];

/** Values of the first argument of commands. */
const values: Readonly<Record<string, readonly string[]>> = {
  completion: ["bash", "zsh", "fish"],
  "settings get": Object.keys(SettingsView.properties).filter((name) => !isDescribed(name)),
  "settings set": Object.keys(SettingsUpdate.properties),
};

/** Prints an id and a title a line. */
const listIds = "sandpiper completion ids 2>/dev/null";

/** Conversations that are offered. */
const maxIds = 50;

/** The completion script of a shell, made from the commands themselves. Throws CliError. */
export function completion(shell: string, program: Command): string {
  const entries = describe(program, []);
  switch (shell) {
    case "bash":
      return bash(entries);
    case "zsh":
      return zsh(entries);
    case "fish":
      return fish(entries);
    default:
      throw new CliError(`There is no completion for ${JSON.stringify(shell)}: bash, zsh or fish.`, {
        exitCode: exitCodes.usage,
      });
  }
}

/**
 * Prints ids with titles for the scripts. Without a running server it prints nothing: a key press
 * must not start one.
 */
export async function printIds(): Promise<void> {
  const { SANDPIPER_URL: url } = process.env;
  if (!url && !findServer(loadConfig().dataDir)) return;
  const { client } = await connect();
  let count = 0;
  for await (const { id, title } of listConversations(client)) {
    // A shell expands the words that it completes: only an id is one.
    if (!/^[\w-]+$/.test(id)) continue;
    process.stdout.write(`${shortId(id)}\t${inertLine(title ?? "")}\n`);
    if (++count === maxIds) return;
  }
}

function describe(command: Command, path: readonly string[]): Entry[] {
  const children = command.commands.map((child) => ({ word: child.name(), about: child.description() }));
  const options = command.options.flatMap(({ long, description }) =>
    long ? [{ word: long, about: description }] : [],
  );
  const given = (values[path.join(" ")] ?? []).map((word) => ({ word, about: "" }));
  return [
    {
      path: path.join(" "),
      words: [...children, ...given],
      options: [...options, { word: "--help", about: "show help" }],
    },
    ...command.commands.flatMap((child) => describe(child, [...path, child.name()])),
  ];
}

function bash(entries: readonly Entry[]): string {
  const list = (words: readonly Word[]) => quote(words.map(({ word }) => word).join(" "));
  const cases = entries
    .map(({ path, words, options }) => `    ${quote(path)}) words=${list(words)} options=${list(options)} ;;`)
    .join("\n");
  return `# bash completion of sandpiper
_sandpiper() {
  local word=\${COMP_WORDS[COMP_CWORD]} path= words= options= each
  for each in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path $each" in
${parents(entries)}
    esac
  done
  case "$path" in
${cases}
  esac
  case "$path" in
    ${takesIds.join(" | ")}) words="$words $(${listIds} | cut -f 1)" ;;
  esac
  case "$word" in
    -*) words=$options ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [ \${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}
complete -F _sandpiper sandpiper bin/sandpiper
`;
}

/** Cases that extend the path by a subcommand. */
function parents(entries: readonly Entry[]): string {
  return entries
    .filter(({ path }) => path !== "")
    .map(({ path }) => `      ${quote(path.includes(" ") ? path : ` ${path}`)}) path=${quote(path)} ;;`)
    .join("\n");
}

function zsh(entries: readonly Entry[]): string {
  const list = (words: readonly Word[]) =>
    words.map(({ word, about }) => quote(about ? `${word}:${about.replaceAll(":", "\\:")}` : word)).join(" ");
  const cases = entries
    .map(
      ({ path, words, options }) =>
        `    ${quote(path)}) words_=(${list(words)}) options_=(${list(options)}) ;;`,
    )
    .join("\n");
  return `#compdef sandpiper
# zsh completion of sandpiper
_sandpiper() {
  local path_= each
  local -a words_ options_ ids
  for each in "\${(@)words[2,CURRENT-1]}"; do
    case "$path_ $each" in
${parents(entries).replaceAll(") path=", ") path_=")}
    esac
  done
  case "$path_" in
${cases}
  esac
  if [[ "$words[CURRENT]" = -* ]]; then
    _describe -o option options_
    return
  fi
  case "$path_" in
    ${takesIds.join("|")}) ids=(\${(f)"$(${listIds} | sed 's/:/\\\\:/g; s/\\t/:/')"}) ;;
  esac
  _describe command words_ -- ids || _files
}
if [ "$funcstack[1]" = _sandpiper ]; then _sandpiper "$@"; else compdef _sandpiper sandpiper; fi
`;
}

function fish(entries: readonly Entry[]): string {
  const lines = entries.flatMap(({ path, words, options }) => {
    const seen = path.split(" ").filter(Boolean);
    const below = words.map(({ word }) => word).join(" ");
    const conditions = seen.map((word) => `__fish_seen_subcommand_from ${word}`);
    if (seen.length === 0) conditions.push("__fish_use_subcommand");
    else if (below) conditions.push(`not __fish_seen_subcommand_from ${below}`);
    const condition = quote(conditions.join("; and "));
    return [
      ...words.map(
        ({ word, about }) =>
          `complete -c sandpiper -n ${condition} -f -a ${word}${about && ` -d ${quote(about)}`}`,
      ),
      ...options.map(
        ({ word, about }) => `complete -c sandpiper -n ${condition} -l ${word.slice(2)} -d ${quote(about)}`,
      ),
    ];
  });
  const ids = `complete -c sandpiper -f -n ${quote(`__fish_seen_subcommand_from ${takesIds.join(" ")}`)} -a ${quote(`(${listIds})`)}`;
  return `# fish completion of sandpiper\n${lines.join("\n")}\n${ids}\n`;
}

/** Quotes for all three shells: their single quotes differ only in what a backslash means. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
