import { isOwnCredentialHelper } from "./own-parts.ts";

/** Ends of the names of settings whose value is a program, or starts one. */
const programs =
  /^(?:fsmonitor|sshcommand|gitproxy|askpass|editor|pager|hookspath|alternaterefscommand|program|defaultkeycommand|helper|external|command|textconv|driver|clean|smudge|process|[a-z]*cmd|uploadpack|receivepack|vcs|difffilter|packobjectshook|tunnel|browser|httpd|templatedir|standalonetransferagent|smtpserver)$/;

/** Sections with paths of programs; elsewhere, a path is a file. */
const programPaths = /^(?:browser|difftool|guitool|lfs|man|mergetool)\./;

const booleans = /^(?:true|false|yes|no|on|off|\d*)$/i;

/** Programs that are part of git, or that images bring under these names. */
const usual =
  /^(?:git-lfs (?:clean|smudge) -- %f|git-lfs filter-process|cat|less|more|nano|vi|vim|cache|store)$/;

/** The address `NAME::…` makes git start the program `git-remote-NAME`. */
const helperUrl = /^[\w.+-]*::/;

/**
 * The settings of a list of `git config --list --null` that name programs, as `name = value`, or
 * that let others in: included files, and protocols whose addresses are commands.
 */
export function findGitPrograms(list: string): string[] {
  const found = new Set<string>();
  for (const entry of list.split("\0")) {
    const end = entry.indexOf("\n");
    // A setting without a value is true.
    if (end < 0) continue;
    const name = entry.slice(0, end);
    const value = entry.slice(end + 1);
    if (startsProgram(name, value)) found.add(`${name} = ${value}`);
  }
  return [...found];
}

function startsProgram(name: string, value: string): boolean {
  const section = name.slice(0, name.indexOf("."));
  const last = name.slice(name.lastIndexOf(".") + 1);
  if (section === "alias") return value.startsWith("!");
  if (section === "pager") return !booleans.test(value) && !usual.test(value);
  if (section === "include" || section === "includeif") return last === "path";
  if (section === "protocol") return last === "allow" && value !== "never";
  if (section === "submodule" && last === "update") return value.startsWith("!");
  if (section === "url" && helperUrl.test(name.slice("url.".length))) return true;
  if (/^(?:push)?url$/.test(last)) return helperUrl.test(value);
  if (section === "credential" && isOwnCredentialHelper(value)) return false;
  if (last === "path") return programPaths.test(name);
  return programs.test(last) && !booleans.test(value) && !usual.test(value);
}

/**
 * Lists the settings of a file as `git config --list` does, except that a comment after a value
 * stays part of the value.
 */
export function listGitSettings(text: string): string {
  let section = "";
  const settings: string[] = [];
  for (const line of text.replaceAll("\\\r\n", "").replaceAll("\\\n", "").split("\n")) {
    let rest = line.trim();
    if (rest.startsWith("[")) {
      const quoted = rest.indexOf('"]');
      const end = quoted < 0 ? rest.indexOf("]") : quoted;
      const [name = "", ...subsection] = rest.slice(1, end < 0 ? undefined : end).split('"');
      section = name.trim().toLowerCase();
      if (subsection.length > 0) section += `.${subsection.join('"').replaceAll("\\", "")}`;
      rest = end < 0 ? "" : rest.slice(rest.indexOf("]", end) + 1).trim();
    }
    const equals = rest.indexOf("=");
    if (rest === "" || /^[#;]/.test(rest) || equals < 0) continue;
    const name = rest.slice(0, equals).trim().toLowerCase();
    const value = rest.slice(equals + 1).replaceAll('"', "");
    settings.push(`${section}.${name}\n${value.trim()}\0`);
  }
  return settings.join("");
}
