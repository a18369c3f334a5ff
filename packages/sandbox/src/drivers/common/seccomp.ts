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

const errno = { EPERM: 1, EINVAL: 22, ENOSYS: 38, ENOPROTOOPT: 92, EPROTONOSUPPORT: 93, EAFNOSUPPORT: 97 };

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

/** Replaced by the rules of `cloneRules`, `socketRules`, `optionRules` and `lockRules`. */
const rewritten = new Set(["clone", "socket", "setsockopt", "fcntl", "fcntl64", ...absent]);

const allow = "SCMP_ACT_ALLOW";
const refuse = "SCMP_ACT_ERRNO";

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const namespaceFlags = [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000];
const allNamespaceFlags = namespaceFlags.reduce((all, flag) => all + flag);

/** AF_VSOCK, which is not among these, would reach a hypervisor past the network namespace. */
const families = { unix: 1, inet: 2, inet6: 10, netlink: 16 };
/** IP, ICMP, TCP, UDP, ICMPv6, MPTCP. Others make the kernel load code that hardly anybody uses. */
const internetProtocols = [0, 1, 6, 17, 58, 262];
/** NETLINK_ROUTE lists interfaces; by others processes hold memory that no limit counts. */
const routeProtocol = 0;

const socketLevel = 1;
/**
 * SO_ATTACH_FILTER, _BPF, _REUSEPORT_CBPF, _REUSEPORT_EBPF: no limit counts the compiled filters,
 * and what the machine has for them serves all sandboxes.
 */
const filterOptions = [26, 50, 51, 52];
/**
 * F_OFD_GETLK, _SETLK, _SETLKW: no limit counts these locks, and unlike others they belong to no
 * process. Programs use others when they fail with EINVAL, as before Linux 3.15.
 */
const descriptorLocks = [36, 37, 38];

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
    ...optionRules(),
    ...lockRules(),
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

/** True for an argument whose bits under the mask have the value; the kernel ignores upper bits. */
function masked(index: number, mask: number, value: number): Argument {
  return { index, value: mask, valueTwo: value, op: "SCMP_CMP_MASKED_EQ" };
}

/** Allows threads and processes, but no namespaces. */
function cloneRules(): Rule[] {
  return [
    { names: ["clone"], action: allow, args: [masked(0, allNamespaceFlags, 0)] },
    ...namespaceFlags.map((flag) => ({
      names: ["clone"],
      action: refuse,
      errnoRet: errno.EPERM,
      args: [masked(0, flag, flag)],
    })),
  ];
}

function socketRules(): Rule[] {
  const names = ["socket"];
  const family = (value: number, op = "SCMP_CMP_EQ") => ({ index: 0, value, op });
  const protocol = (value: number, op = "SCMP_CMP_EQ") => ({ index: 2, value, op });
  return [
    { names, action: allow, args: [family(families.unix)] },
    ...[families.inet, families.inet6].flatMap((value) =>
      internetProtocols.map((one) => ({ names, action: allow, args: [family(value), protocol(one)] })),
    ),
    { names, action: allow, args: [family(families.netlink), protocol(routeProtocol)] },
    {
      names,
      action: refuse,
      errnoRet: errno.EPROTONOSUPPORT,
      args: [family(families.netlink), protocol(routeProtocol, "SCMP_CMP_NE")],
    },
    {
      names,
      action: refuse,
      errnoRet: errno.EAFNOSUPPORT,
      args: [family(families.netlink, "SCMP_CMP_GT")],
    },
  ];
}

/** Levels and options of sockets, and commands of `fcntl`, have at most so many bits. */
const levelBits = 9;
const optionBits = 7;
const commandBits = 11;

/** Allows all options of sockets except filters. */
function optionRules(): Rule[] {
  const names = ["setsockopt"];
  const level = masked(1, ...block(socketLevel, 0));
  return [
    ...blocksWithout([socketLevel], levelBits).map((one) => ({
      names,
      action: allow,
      args: [masked(1, ...one)],
    })),
    ...blocksWithout(filterOptions, optionBits).map((one) => ({
      names,
      action: allow,
      args: [level, masked(2, ...one)],
    })),
    ...filterOptions.map((option) => ({
      names,
      action: refuse,
      errnoRet: errno.ENOPROTOOPT,
      args: [level, masked(2, ...block(option, 0))],
    })),
  ];
}

function lockRules(): Rule[] {
  const names = ["fcntl", "fcntl64"];
  return [
    ...blocksWithout(descriptorLocks, commandBits).map((one) => ({
      names,
      action: allow,
      args: [masked(1, ...one)],
    })),
    ...descriptorLocks.map((command) => ({
      names,
      action: refuse,
      errnoRet: errno.EINVAL,
      args: [masked(1, ...block(command, 0))],
    })),
  ];
}

/** Mask and value of the 32-bit numbers that differ from `value` in the lowest bits only. */
function block(value: number, bits: number): [mask: number, value: number] {
  return [2 ** 32 - 2 ** bits, value];
}

/**
 * Blocks of all numbers with so many bits but these. A rule cannot name all numbers but one, and
 * the kernel ignores the upper half of a register.
 */
function blocksWithout(numbers: readonly number[], bits: number, first = 0): ReturnType<typeof block>[] {
  if (!numbers.some((one) => one >= first && one < first + 2 ** bits)) return [block(first, bits)];
  if (bits === 0) return [];
  return [first, first + 2 ** (bits - 1)].flatMap((half) => blocksWithout(numbers, bits - 1, half));
}
