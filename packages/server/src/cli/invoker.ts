import { readFileSync } from "node:fs";

/**
 * The user who called sudo: programs that use this user's files and credentials run as this user.
 */
export interface Invoker {
  uid: number;
  gid: number;
  home: string;
}

/** The user who called sudo, or undefined without sudo. */
export function getInvoker(
  env: NodeJS.ProcessEnv = process.env,
  passwd = "/etc/passwd",
): Invoker | undefined {
  const { SUDO_UID, SUDO_GID } = env;
  if (process.getuid?.() !== 0 || !/^[1-9]\d*$/.test(SUDO_UID ?? "") || !/^\d+$/.test(SUDO_GID ?? ""))
    return undefined;
  const fields = readFileSync(passwd, "utf8")
    .split("\n")
    .map((line) => line.split(":"))
    .find((parts) => parts[2] === SUDO_UID);
  return { uid: Number(SUDO_UID), gid: Number(SUDO_GID), home: fields?.[5] || "/" };
}
