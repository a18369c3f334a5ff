import { existsSync, readFileSync } from "node:fs";
import { release } from "node:os";
import { errorText } from "@sandpiper/core/errors";
import { findBusybox } from "../../common/busybox.ts";
import { initPath } from "../../common/host.ts";
import { profilePackage, profilePath } from "../../common/seccomp.ts";
import { isRootless } from "../../common/uid-range.ts";
import { type CgroupLayout, cgroupLayout } from "../cgroup/cgroups.ts";
import { findRuntime, runCommand } from "./runtime.ts";

/** Result of one check of this machine. */
export interface Check {
  name: string;
  ok: boolean;
  detail: string;
  /** One sentence on what to do. */
  fix?: string;
}

/** Checks this machine for the OCI driver, for `doctor`. Changes nothing. */
export async function probeOci(wanted?: string): Promise<Check[]> {
  const groups = isRootless() ? checkNoCgroups() : checkCgroups(cgroupLayout());
  return [
    await checkRuntime(wanted),
    checkUserNamespaces(),
    groups,
    checkSeccomp(),
    checkInit(),
    checkBusybox(),
    checkOverlay(),
    checkKernel(),
    checkDisk(),
    await checkImages(),
  ];
}

async function checkRuntime(wanted?: string): Promise<Check> {
  try {
    // For ordinary users scripts/rootless or scripts/isolate hides the v2 part.
    const { kind, version } = await findRuntime(wanted, process.getuid?.() === 0 ? cgroupLayout() : "v1");
    const slow = kind === "runc" && wanted === undefined;
    const fix = slow
      ? {
          fix: "crun starts sandboxes 2 to 4 times faster: run `apt-get install crun`, and start through scripts/isolate.",
        }
      : {};
    return { name: "OCI runtime", ok: true, detail: `${kind} ${version}`, ...fix };
  } catch (error) {
    return {
      name: "OCI runtime",
      ok: false,
      detail: errorText(error),
      fix: wanted
        ? "Unset SANDPIPER_RUNTIME, and run `apt-get install crun`."
        : "Run `apt-get install crun`.",
    };
  }
}

function checkUserNamespaces(): Check {
  const name = "user namespaces";
  const maximum = readNumber("/proc/sys/user/max_user_namespaces");
  if (!existsSync("/proc/self/ns/user") || maximum === undefined) {
    return { name, ok: false, detail: "the kernel has none", fix: "Use a kernel with CONFIG_USER_NS." };
  }
  if (maximum === 0)
    return { name, ok: false, detail: "switched off", fix: "Run `sysctl user.max_user_namespaces=15000`." };
  const ids = readFileSync("/proc/self/uid_map", "utf8").trim().split(/\s+/).map(Number);
  if (isRootless() && ids.length > 3)
    return { name, ok: true, detail: `an ordinary user's, with ${ids[5]} subordinate ids` };
  if ((ids[2] ?? 0) < 2 ** 31) {
    const fix = "Run the server outside of the container or user namespace that it is in.";
    return { name, ok: false, detail: "only a part of the user ids is available here", fix };
  }
  return { name, ok: true, detail: `up to ${maximum}` };
}

function checkNoCgroups(): Check {
  const detail =
    "not for this user: memory and processes are limited for each process and user of a sandbox, CPUs are not";
  return {
    name: "control groups",
    ok: true,
    detail,
    fix: "Run the server as root where sandboxes need limits as a whole.",
  };
}

/** Controllers for the limits of a sandbox. */
const controllers = ["cpu", "memory", "pids"];

function checkCgroups(layout: CgroupLayout): Check {
  const name = "control groups";
  if (layout === "none")
    return {
      name,
      ok: false,
      detail: "not mounted",
      fix: "Mount them: `mount -t cgroup2 none /sys/fs/cgroup`.",
    };
  const available =
    layout === "v2"
      ? readFileSync("/sys/fs/cgroup/cgroup.controllers", "utf8").trim().split(" ")
      : controllers.filter((controller) => existsSync(`/sys/fs/cgroup/${controller}/cgroup.procs`));
  const missing = controllers.filter((controller) => !available.includes(controller));
  if (missing.length > 0) {
    return {
      name,
      ok: false,
      detail: `${layout} without ${missing.join(", ")}`,
      fix: `Enable ${missing.join(", ")} in the kernel's command line.`,
    };
  }
  // The real root group has no type; a group that only looks like the root cannot have subgroups.
  if (layout === "v2" && existsSync("/sys/fs/cgroup/cgroup.type")) {
    const fix = "Start the container with the machine's control groups (`--cgroupns=host --privileged`).";
    return { name, ok: false, detail: "v2, but only a part of the tree is visible", fix };
  }
  const hidden =
    layout === "hybrid" && process.getuid?.() === 0
      ? { fix: "Start through scripts/isolate, so that crun can be used." }
      : {};
  return { name, ok: true, detail: `${layout} with ${controllers.join(", ")}`, ...hidden };
}

function checkSeccomp(): Check {
  const name = "system call filter";
  if (!/^Seccomp:/m.test(readFileSync("/proc/self/status", "utf8"))) {
    return {
      name,
      ok: false,
      detail: "the kernel has none",
      fix: "Use a kernel with CONFIG_SECCOMP_FILTER.",
    };
  }
  if (existsSync(profilePath)) return { name, ok: true, detail: profilePath };
  return {
    name,
    ok: false,
    detail: `${profilePath} is missing`,
    fix: `Run \`apt-get install ${profilePackage}\`.`,
  };
}

function checkInit(): Check {
  const name = "init for sandboxes";
  if (existsSync(initPath)) return { name, ok: true, detail: initPath };
  return {
    name,
    ok: true,
    detail: "a shell loop",
    fix: "An idle sandbox needs less memory with `apt-get install catatonit`.",
  };
}

function checkBusybox(): Check {
  const name = "static busybox";
  const path = findBusybox();
  if (path !== undefined) return { name, ok: true, detail: path };
  return {
    name,
    ok: true,
    detail: "none",
    fix: "Commands start 5 times faster with `apt-get install busybox-static`.",
  };
}

function checkDisk(): Check {
  return { name: "disk limits", ok: true, detail: "measured every few seconds" };
}

async function checkImages(): Promise<Check> {
  const name = "images";
  const found = await Promise.all(
    ["skopeo", "umoci"].map(async (tool) => ({
      tool,
      ...(await runCommand([tool, "--version"], { timeoutMs: 5_000 })),
    })),
  );
  const missing = found.filter(({ code }) => code !== 0).map(({ tool }) => tool);
  if (missing.length === 0) return { name, ok: true, detail: "by skopeo and umoci" };
  const fix = `Run \`apt-get install ${missing.join(" ")}\`; the spec \`host\` needs no image.`;
  return { name, ok: true, detail: `${missing.join(" and ")} not found`, fix };
}

function checkOverlay(): Check {
  const ok = /^nodev\s+overlay$/m.test(readFileSync("/proc/filesystems", "utf8"));
  const fix = { fix: "Run `modprobe overlay`; every sandbox's files are stacked by it." };
  return { name: "overlay filesystem", ok, detail: ok ? "available" : "not loaded", ...(!ok && fix) };
}

function checkKernel(): Check {
  const [major, minor] = release().split(".").map(Number);
  const ok = major! > 5 || (major === 5 && minor! >= 6);
  return {
    name: "kernel",
    ok,
    detail: release(),
    ...(!ok && {
      fix: "Use Linux 5.6 or newer (an ordinary user's server: 5.11); a folder as root needs 5.19.",
    }),
  };
}

function readNumber(path: string): number | undefined {
  try {
    return Number(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}
