import type { SandboxUser } from "../../../driver.ts";
import { readInRoot } from "../../oci/images/root-files.ts";
import { unusable } from "./problems.ts";

const maxId = 65_534;

/**
 * The user that a text (`name`, `uid`, either with `:group` or `:gid`; empty for root) means in the root filesystem `root`.
 * A number that the root's /etc/passwd does not know gets the group root, as in docker, and a home of its own.
 * Throws SandboxSpecUnusable with a sentence that names `what` (the image or folder).
 */
export function findUser(root: string, text: string, what: string): SandboxUser {
  const [, wanted = "", group] = /^([^:\0\n]*)(?::([^:\0\n]+))?$/.exec(text.trim()) ?? [];
  if (wanted === "" && text.trim() !== "")
    throw unusable(`The user ${shown(text)} of ${what} must be name, uid, or either with :group.`);
  const users = table(root, "/etc/passwd");
  const user = wanted === "" ? "0" : wanted;
  const found = users.find((fields) => (isNumber(user) ? fields[2] === user : fields[0] === user));
  if (!found && !isNumber(user)) throw unusable(`There is no user ${shown(user)} in /etc/passwd of ${what}.`);
  const uid = readId(found?.[2] ?? user, what);
  const gid = group === undefined ? readId(found?.[3] ?? "0", what) : findGroup(root, group, what);
  const name = found?.[0] || (uid === 0 ? "root" : "user");
  const home = found?.[5]?.startsWith("/") ? found[5] : uid === 0 ? "/root" : "/home/user";
  return { name, uid, gid, home };
}

function findGroup(root: string, group: string, what: string): number {
  if (isNumber(group)) return readId(group, what);
  const found = table(root, "/etc/group").find(([name]) => name === group);
  if (!found) throw unusable(`There is no group ${shown(group)} in /etc/group of ${what}.`);
  return readId(found[2] ?? "", what);
}

function table(root: string, path: string): string[][] {
  return (readInRoot(root, path) ?? "").split("\n").map((line) => line.split(":"));
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}

function readId(text: string, what: string): number {
  const id = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (id <= maxId) return id;
  throw unusable(`The user or group id ${shown(text)} of ${what} is not between 0 and ${maxId}.`);
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 64));
}
