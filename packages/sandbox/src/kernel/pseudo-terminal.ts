import { closeSync, constants, fchownSync, fstatSync, openSync } from "node:fs";
import { openInRoot } from "./files-in-root.ts";
import { call, native } from "./libc.ts";

const control = native("int ioctl(int fd, unsigned long request, void *value)");
const controlWith = native("int ioctl(int fd, unsigned long request, long value)");

/** The same on x86, ARM and RISC-V. */
const TIOCSPTLCK = 0x4004_5431;
const TIOCGPTN = 0x8004_5430;
const TIOCGPTPEER = 0x5441;
const TIOCSWINSZ = 0x5414;

/** `/dev/ptmx` of any instance: major 5, minor 2. */
const multiplexer = (5 << 8) | 2;
const { O_DIRECTORY, O_NOCTTY, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;
const O_CLOEXEC = 0o2000000;

/** Size of a terminal in characters. */
export interface TtySize {
  cols: number;
  rows: number;
}

/** An open pseudo-terminal; the caller closes both descriptors. */
export interface PseudoTerminal {
  /** Descriptor of the side that shows the terminal; reads and writes do not block. */
  master: number;
  /** Descriptor of the side that programs use. */
  slave: number;
  /** Its path in the root. */
  path: string;
}

/**
 * Opens a terminal of the devpts instance in a root folder. No link in the root is followed out of
 * it, and `uid` (host id) owns the terminal. Throws ENOENT, EACCES, ENOSPC, …, and ENOTTY when the
 * root has no such instance.
 */
export function openPseudoTerminal(root: string, uid: number, size: TtySize): PseudoTerminal {
  const folder = openSync(root, O_RDONLY | O_DIRECTORY);
  let master: number | undefined;
  let slave: number | undefined;
  try {
    master = openInRoot(folder, "/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
    const fd = master;
    const path = prepareMaster(fd, size);
    slave = call("ioctl", () => controlWith(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    fchownSync(slave, uid, fstatSync(slave).gid);
    return { master, slave, path };
  } catch (error) {
    for (const fd of [master, slave]) if (fd !== undefined) closeSync(fd);
    throw error;
  } finally {
    closeSync(folder);
  }
}

/**
 * Unlocks a terminal by the descriptor of its master side, sets its size and returns its path.
 * Throws ENOTTY when the descriptor is not the master side of a terminal.
 */
export function prepareMaster(master: number, size: TtySize): string {
  if (fstatSync(master).rdev !== multiplexer) throw Object.assign(new Error("ENOTTY"), { code: "ENOTTY" });
  const number = new Int32Array(1);
  call("ioctl", () => control(master, TIOCSPTLCK, number));
  call("ioctl", () => control(master, TIOCGPTN, number));
  resizePseudoTerminal(master, size);
  return `/dev/pts/${number[0]}`;
}

/** The foreground processes of the terminal get SIGWINCH. */
export function resizePseudoTerminal(master: number, { cols, rows }: TtySize): void {
  call("ioctl", () => control(master, TIOCSWINSZ, Uint16Array.of(rows, cols, 0, 0)));
}
