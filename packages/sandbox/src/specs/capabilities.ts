/**
 * The capabilities that root of a sandbox may have, inside its user namespace only: what package
 * managers and services need to change owners and users. They are the usual ones of containers
 * without those for raw sockets, devices and audit.
 */
export const usualCapabilities = [
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "NET_BIND_SERVICE",
  "SETFCAP",
  "SETGID",
  "SETPCAP",
  "SETUID",
  "SYS_CHROOT",
] as const;

export type Capability = (typeof usualCapabilities)[number];
