import { existsSync } from "node:fs";
import { findBusybox, insideBusybox, insideFolder } from "../common/busybox.ts";
import { hostInitPath as hostInit } from "../common/host.ts";

/** A static program of this machine that every sandbox gets. */
export interface Program {
  source: string;
  destination: string;
}

/** Path of the static init inside. */
export const containerInitPath = `${insideFolder}/init`;

/** The init and, if this machine has it, busybox; undefined without an init. */
export function findPrograms(): Program[] | undefined {
  if (!existsSync(hostInit)) return undefined;
  const busybox = findBusybox();
  return [
    { source: hostInit, destination: containerInitPath },
    ...(busybox === undefined ? [] : [{ source: busybox, destination: insideBusybox }]),
  ];
}
