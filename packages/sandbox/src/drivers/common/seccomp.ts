/** Path of the profile of Debian and Ubuntu, which container engines share. */
export const profilePath = "/usr/share/containers/seccomp.json";
export const profilePackage = "golang-github-containers-common";

interface Argument {
  index: number;
  value: number;
  valueTwo?: number;
  op: string;
}

interface Rule {
  names: string[];
  action: string;
  args?: Argument[] | null;
  errnoRet?: number;
  includes?: { caps?: string[]; arches?: string[] };
  excludes?: { caps?: string[]; arches?: string[] };
}

/** The shared profile: its rules depend on capabilities and architecture. */
export interface SeccompProfile {
  defaultAction: string;
  defaultErrnoRet?: number;
  syscalls: Rule[];
}

const errno = { EPERM: 1, EINVAL: 22, ENOSYS: 38, EAFNOSUPPORT: 97 };

/**
 * Calls that the shared profile grants to container engines and agents do not need: namespaces and
 * mounts (the largest attack surface of an unprivileged process), key rings (not namespaced) and
 * loaders of kernel code.
 */
const refused = new Set(
  `
    unshare setns mount umount umount2 pivot_root move_mount open_tree fsopen fsconfig fsmount
    fspick mount_setattr keyctl add_key request_key bpf perf_event_open userfaultfd
    io_uring_setup io_uring_enter io_uring_register socketcall reboot syslog name_to_handle_at
    open_by_handle_at memfd_secret
  `
    .trim()
    .split(/\s+/),
);

/**
 * Calls that fail with ENOSYS, so that programs do without: clone3 hides its flags in memory, and
 * io_setup draws on one machine-wide limit that a single sandbox could use up.
 */
const absent = ["clone3", "io_setup"];

/** Replaced by the rules of `cloneRules` and `socketRules`. */
const rewritten = new Set(["clone", "socket", ...absent]);

const allow = "SCMP_ACT_ALLOW";
const refuse = "SCMP_ACT_ERRNO";

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const namespaceFlags = [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000];
const allNamespaceFlags = namespaceFlags.reduce((all, flag) => all + flag);

/** AF_UNIX, AF_INET, AF_INET6. AF_VSOCK would reach a hypervisor past the network namespace. */
const socketFamilies = [1, 2, 10];
const netlink = { family: 16, auditProtocol: 9 };

const architectures: Record<string, { names: string[]; scmp: string[] }> = {
  x64: { names: ["amd64"], scmp: ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"] },
  arm64: { names: ["arm64"], scmp: ["SCMP_ARCH_AARCH64"] },
};

/**
 * Makes the `linux.seccomp` section for processes with the usual capabilities, or fewer, from the
 * shared profile.
 * Undefined for an unknown architecture (`process.arch`).
 */
export function makeSeccompSection(profile: SeccompProfile, arch: string): object | undefined {
  const target = architectures[arch];
  if (!target) return undefined;
  const rules: Rule[] = [];
  for (const rule of profile.syscalls) {
    if (!applies(rule, target.names)) continue;
    const names = rule.names.filter((name) => !refused.has(name) && !rewritten.has(name));
    if (names.length === 0) continue;
    const { action, args, errnoRet } = rule;
    rules.push({ names, action, args: args ?? [], ...(errnoRet === undefined ? {} : { errnoRet }) });
  }
  rules.push(
    { names: [...refused], action: refuse, errnoRet: errno.EPERM },
    { names: absent, action: refuse, errnoRet: errno.ENOSYS },
    ...cloneRules(),
    ...socketRules(),
  );
  return {
    defaultAction: profile.defaultAction,
    defaultErrnoRet: profile.defaultErrnoRet ?? errno.EPERM,
    architectures: target.scmp,
    syscalls: rules,
  };
}

/** The only capability of sandboxes with rules; without it, the kernel itself refuses the call. */
const chrootCapability = "CAP_SYS_CHROOT";

function applies(rule: Rule, arches: string[]): boolean {
  const { includes = {}, excludes = {} } = rule;
  const isGiven = (capability: string) => capability === chrootCapability;
  if (!(includes.caps ?? []).every(isGiven) || excludes.caps?.some(isGiven)) return false;
  if (includes.arches?.length && !includes.arches.some((arch) => arches.includes(arch))) return false;
  return !excludes.arches?.some((arch) => arches.includes(arch));
}

/** Allows threads and processes, but no namespaces. */
function cloneRules(): Rule[] {
  const masked = (mask: number, value: number) => [
    { index: 0, value: mask, valueTwo: value, op: "SCMP_CMP_MASKED_EQ" },
  ];
  return [
    { names: ["clone"], action: allow, args: masked(allNamespaceFlags, 0) },
    ...namespaceFlags.map((flag) => ({
      names: ["clone"],
      action: refuse,
      errnoRet: errno.EPERM,
      args: masked(flag, flag),
    })),
  ];
}

function socketRules(): Rule[] {
  const names = ["socket"];
  const family = (value: number, op = "SCMP_CMP_EQ") => ({ index: 0, value, op });
  const audit = (op: string) => [family(netlink.family), { index: 2, value: netlink.auditProtocol, op }];
  return [
    ...socketFamilies.map((value) => ({ names, action: allow, args: [family(value)] })),
    { names, action: allow, args: audit("SCMP_CMP_NE") },
    { names, action: refuse, errnoRet: errno.EINVAL, args: audit("SCMP_CMP_EQ") },
    { names, action: refuse, errnoRet: errno.EAFNOSUPPORT, args: [family(netlink.family, "SCMP_CMP_GT")] },
  ];
}
