import { readdirSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join, posix, relative, resolve } from "node:path";
import { Readable } from "node:stream";
import { create } from "tar";
import type { Client } from "../client.ts";
import { CliError } from "../errors.ts";
import { inertLine } from "../inert.ts";

/** A file of a message may have this many bytes. */
const maxFileBytes = 32 * 1024 * 1024;

/** Names that a completion offers. */
const maxOffers = 100;

/** Where files from outside of the folder go in the sandbox. */
const outsideFolder = "/tmp/files";

/** `@path`, or `@"path with spaces"`. */
const mention = /(?<![^\s("'])@(?:"([^"\n]+)"|([^\s"')]+))/g;

export interface Place {
  /** The folder with a copy in the sandbox, and the user's own in it. */
  folder: string;
  own: string;
  sandboxId: string;
  /** The copy of the folder in the sandbox. */
  workingDir: string;
  /** Gets the path, below the folder, of each file that is copied there again. */
  onCopy: (path: string) => Promise<void>;
}

/**
 * Copies the files that a message names as `@path` into the sandbox, as they are now, and returns
 * the message with their paths there. A word after `@` that is no file stays as it is; so does
 * one of a pasted text, because others may have written it. Throws CliError for a file that
 * is too large, and for a link that leads out of the folder.
 */
export async function sendMentions(
  client: Client,
  place: Place,
  message: string,
  pasted: readonly string[] = [],
): Promise<string> {
  const named = [...message.matchAll(mention)]
    .filter(([whole]) => !pasted.some((text) => text.includes(whole)))
    .map((match) => (match[1] ?? match[2])!);
  const sent: string[] = [];
  for (const name of new Set(named)) {
    const path = resolve(place.own, name.replace(/^~(?=\/)/, homedir()));
    const found = statSync(path, { throwIfNoEntry: false });
    if (!found?.isFile()) continue;
    if (found.size > maxFileBytes)
      throw new CliError(`${inertLine(name)} has more than ${maxFileBytes / 1024 / 1024} MB.`);
    sent.push(`@${name} is the file ${await sendFile(client, place, path)}`);
  }
  return sent.length === 0 ? message : `${message}\n\n${sent.join("\n")}`;
}

async function sendFile(client: Client, place: Place, path: string): Promise<string> {
  const { folder, sandboxId, workingDir } = place;
  const below = findBelow(folder, path);
  const isInside = below !== undefined;
  const real = realpathSync(path);
  // Whoever made the folder may have made a link to any file of this machine.
  if (isInside && findBelow(realpathSync(folder), real) === undefined)
    throw new CliError(
      `${inertLine(below)} is a link that leads out of the folder: to send the file, name it as @${inertLine(real)}.`,
    );
  const [cwd, name, target] = isInside
    ? [folder, below, workingDir]
    : [dirname(path), basename(path), outsideFolder];
  await client.upload(
    sandboxId,
    target,
    Readable.from(create({ cwd, portable: true, follow: true }, [name])),
  );
  if (isInside) await place.onCopy(below);
  return posix.join(target, name);
}

/** The path of a file below a folder; undefined when it is elsewhere. */
function findBelow(folder: string, path: string): string | undefined {
  const below = relative(folder, path);
  return below === ".." || below.startsWith("../") || isAbsolute(below) ? undefined : below;
}

/**
 * Paths of the folder that complete the word `@…` at the end of a line, in quotes where they have
 * spaces. Names with characters that act on a terminal are not offered.
 */
export function completeMention(folder: string, line: string): [string[], string] | undefined {
  const at = line.lastIndexOf("@");
  const [, quote = "", word = ""] = /^@("?)([^"]*)$/.exec(at < 0 ? "" : line.slice(at)) ?? [];
  if (at < 0 || /\S$/.test(line.slice(0, at)) || line.indexOf('"', at + 2) >= 0) return undefined;
  if (quote === "" && /\s/.test(word)) return undefined;
  const parent = word.slice(0, word.lastIndexOf("/") + 1);
  const whole = quote + word;
  try {
    const entries = readdirSync(join(folder, parent), { withFileTypes: true });
    const offers = entries
      .map((entry) => `${parent}${entry.name}${entry.isDirectory() ? "/" : ""}`)
      .filter((path) => path.startsWith(word) && inertLine(path) === path && !path.includes('"'))
      .slice(0, maxOffers)
      .map((path) =>
        quote || /[\s')]/.test(path) ? `@"${path}${path.endsWith("/") ? "" : '"'}` : `@${path}`,
      );
    return [offers, `@${whole}`];
  } catch {
    return [[], `@${whole}`];
  }
}
