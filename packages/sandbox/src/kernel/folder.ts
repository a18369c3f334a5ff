import { call, native } from "./libc.ts";

const chdir = native("int chdir(const char *path)");

/** Changes the working folder of the calling thread, which must have one of its own (`privateMounts` gives it one). */
export function changeFolder(path: string): void {
  call("chdir", () => chdir(path));
}
