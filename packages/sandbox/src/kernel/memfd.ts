import { closeSync, fstatSync } from "node:fs";
import { call, native } from "./libc.ts";

const memfdCreate = native("int memfd_create(const char *name, unsigned int flags)");

const MFD_CLOEXEC = 1;

/** Device number of files that have no place but memory: those of `memfd_create`, of shared mappings and of System V segments. */
export function memoryDevice(): number {
  const fd = call("memfd_create", () => memfdCreate("", MFD_CLOEXEC));
  try {
    return fstatSync(fd).dev;
  } finally {
    closeSync(fd);
  }
}
