import { getSystemErrorMessage } from "node:util";
import koffi from "koffi";

/**
 * System calls that Node lacks, through the C library. They block the calling thread for
 * microseconds. Each throws an Error with `code` (`EPERM`, …) and `syscall`, as node:fs does.
 */
const library = koffi.load("libc.so.6");

type Native = (...values: unknown[]) => number;

export function native(prototype: string): Native {
  return library.func(prototype) as Native;
}

/** Address of a function of the C library, for functions that take one. */
export function functionAddress(name: string): unknown {
  return library.symbol(name);
}

/** Calls a function that returns -1 and sets errno when it fails; returns its result. */
export function call(name: string, work: () => number): number {
  const result = work();
  if (result !== -1) return result;
  throw systemError(name, koffi.errno());
}

/** The error of a system call that failed with the errno `number`. */
export function systemError(name: string, number: number): NodeJS.ErrnoException {
  const code = Object.entries(koffi.os.errno).find(([, value]) => value === number)?.[0] ?? `E${number}`;
  const error: NodeJS.ErrnoException = new Error(`${code}: ${getSystemErrorMessage(-number)}, ${name}`);
  return Object.assign(error, { code, syscall: name, errno: -number });
}
