import { call, native } from "./libc.ts";

const MS_NOSUID = 2;
const MS_NODEV = 4;
const MS_REC = 0x4000;
const MS_SLAVE = 1 << 19;
const MNT_DETACH = 2;

const mountCall = native(
  "int mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data)",
);
const umount = native("int umount2(const char *target, int flags)");

function mount(
  source: string,
  target: string,
  type: string | null,
  flags: number,
  data: string | null,
): void {
  call("mount", () => mountCall(source, target, type, flags, data));
}

/** Hides mounts of this mount namespace from others; those of the parent still arrive here. */
export function keepMountsHere(): void {
  mount("none", "/", null, MS_REC | MS_SLAVE, null);
}

/** Paths must not contain `:`, `,` or `\`. `layers` are read-only, uppermost first. */
export interface Overlay {
  layers: string[];
  upper: string;
  work: string;
  /** True when set-user-id programs have an effect. */
  setUserId: boolean;
}

/** Throws EINVAL when the kernel cannot stack these folders. */
export function mountOverlay(target: string, overlay: Overlay, extra: string[] = []): void {
  const options = [
    `lowerdir=${overlay.layers.join(":")}`,
    `upperdir=${overlay.upper}`,
    `workdir=${overlay.work}`,
    ...extra,
  ];
  const flags = MS_NODEV | (overlay.setUserId ? 0 : MS_NOSUID);
  mount("overlay", target, "overlay", flags, options.join(","));
}

/** Detaches a mount at once; it ends with its last user. */
export function unmount(target: string): void {
  call("umount2", () => umount(target, MNT_DETACH));
}
