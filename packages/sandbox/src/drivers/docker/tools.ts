import { existsSync } from "node:fs";
import { findBusybox } from "../common/busybox.ts";
import { insideBusybox, insideFolder } from "../common/folders.ts";
import { initPath as hostInit } from "../common/host.ts";

/** A static program of this machine that every sandbox has. */
export interface Tool {
  source: string;
  destination: string;
}

/** Path of the static init inside. */
export const initPath = `${insideFolder}/init`;

/** argv words that run a shell with file tools in a sandbox that has `tools`; undefined where this machine lacks busybox. */
export function shellOf(tools: Tool[]): string[] | undefined {
  return tools.some(({ destination }) => destination === insideBusybox) ? [insideBusybox, "sh"] : undefined;
}

/** The init, which is needed, and busybox, where this machine has it. */
export function findTools(): Tool[] | undefined {
  if (!existsSync(hostInit)) return undefined;
  const busybox = findBusybox();
  return [
    { source: hostInit, destination: initPath },
    ...(busybox === undefined ? [] : [{ source: busybox, destination: insideBusybox }]),
  ];
}
