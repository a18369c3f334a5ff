import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxUser } from "../../../driver.ts";
import { readInRoot } from "../../../kernel/files-in-root.ts";

const maxId = 65_534;

/**
 * Looks up a user (`name` or `uid`, optionally with `:group` or `:gid`; empty for root) in the root
 * filesystem `root`. As in Docker, a uid that /etc/passwd lacks gets the group root.
 * Throws SandboxSpecUnusable with a sentence that names `place` (the image or folder).
 */
export function findUser(root: string, text: string, place: string): SandboxUser {
  const [, wanted = "", group] = /^([^:\0\n]*)(?::([^:\0\n]+))?$/.exec(text.trim()) ?? [];
  if (wanted === "" && text.trim() !== "")
    throw new PlatformError("ImageUserInvalid", { user: quote(text), place });
  const users = readTable(root, "/etc/passwd");
  const user = wanted === "" ? "0" : wanted;
  const found = users.find((fields) => (isNumber(user) ? fields[2] === user : fields[0] === user));
  if (!found && !isNumber(user)) throw new PlatformError("ImageUserMissing", { user: quote(user), place });
  const uid = parseId(found?.[2] ?? user, place);
  const gid = group === undefined ? parseId(found?.[3] ?? "0", place) : findGroup(root, group, place);
  const name = found?.[0] || (uid === 0 ? "root" : "user");
  const home = found?.[5]?.startsWith("/") ? found[5] : uid === 0 ? "/root" : "/home/user";
  return { name, uid, gid, home };
}

function findGroup(root: string, group: string, place: string): number {
  if (isNumber(group)) return parseId(group, place);
  const found = readTable(root, "/etc/group").find(([name]) => name === group);
  if (!found) throw new PlatformError("ImageGroupMissing", { group: quote(group), place });
  return parseId(found[2] ?? "", place);
}

function readTable(root: string, path: string): string[][] {
  return (readInRoot(root, path) ?? "").split("\n").map((line) => line.split(":"));
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}

function parseId(text: string, place: string): number {
  const id = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (id <= maxId) return id;
  throw new PlatformError("ImageIdOutOfRange", { id: quote(text), place, maxId });
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 64));
}
