import { existsSync, readFileSync } from "node:fs";
import { release } from "node:os";
import { errorText } from "@sandpiper/core/errors";
import { findBusybox } from "../../common/busybox.ts";
import { initPath } from "../../common/host.ts";
import { profilePackage, profilePath } from "../../common/seccomp.ts";
import { type CgroupLayout, cgroupLayout } from "../cgroup/cgroups.ts";
import { rootless } from "../storage/uid-range.ts";
import { findRuntime, runCommand } from "./runtime.ts";

/** One thing that this machine can or cannot do. */
export interface Fact {
  name: string;
  ok: boolean;
  detail: string;
  /** What to do about it, one sentence. */
  fix?: string;
}

/** Says what the OCI driver finds on this machine, for `doctor`. Changes nothing. */
export async function probeOci(wanted?: string): Promise<Fact[]> {
  const groups = rootless() ? noControlGroups() : controlGroups(cgroupLayout());
  return [
    await runtime(wanted),
    userNamespaces(),
    groups,
    seccomp(),
    init(),
    busybox(),
    overlay(),
    kernel(),
    disk(),
    await images(),
  ];
}

async function runtime(wanted?: string): Promise<Fact> {
  try {
    // For users the v2 part is hidden by scripts/rootless or scripts/isolate, once they can run sandboxes.
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

function userNamespaces(): Fact {
  const name = "user namespaces";
  const most = readNumber("/proc/sys/user/max_user_namespaces");
  if (!existsSync("/proc/self/ns/user") || most === undefined) {
    return { name, ok: false, detail: "the kernel has none", fix: "Use a kernel with CONFIG_USER_NS." };
  }
  if (most === 0)
    return { name, ok: false, detail: "switched off", fix: "Run `sysctl user.max_user_namespaces=15000`." };
  const ids = readFileSync("/proc/self/uid_map", "utf8").trim().split(/\s+/).map(Number);
  if (rootless() && ids.length > 3)
    return { name, ok: true, detail: `an ordinary user's, with ${ids[5]} subordinate ids` };
  if ((ids[2] ?? 0) < 2 ** 31) {
    const fix = "Run the server outside of the container or user namespace that it is in.";
    return { name, ok: false, detail: "only a part of the user ids is available here", fix };
  }
  return { name, ok: true, detail: `up to ${most}` };
}

function noControlGroups(): Fact {
  const detail =
    "not for this user: memory and processes are limited for each process and user of a sandbox, CPUs are not";
  return {
    name: "control groups",
    ok: true,
    detail,
    fix: "Run the server as root where sandboxes need limits as a whole.",
  };
}

/** What the limits of a sandbox need. */
const controllers = ["cpu", "memory", "pids"];

function controlGroups(layout: CgroupLayout): Fact {
  const name = "control groups";
  if (layout === "none")
    return {
      name,
      ok: false,
      detail: "not mounted",
      fix: "Mount them: `mount -t cgroup2 none /sys/fs/cgroup`.",
    };
  const there =
    layout === "v2"
      ? readFileSync("/sys/fs/cgroup/cgroup.controllers", "utf8").trim().split(" ")
      : controllers.filter((controller) => existsSync(`/sys/fs/cgroup/${controller}/cgroup.procs`));
  const missing = controllers.filter((controller) => !there.includes(controller));
  if (missing.length > 0) {
    return {
      name,
      ok: false,
      detail: `${layout} without ${missing.join(", ")}`,
      fix: `Enable ${missing.join(", ")} in the kernel's command line.`,
    };
  }
  // The root group of a machine has no type; a group that only looks like the root may not divide itself.
  if (layout === "v2" && existsSync("/sys/fs/cgroup/cgroup.type")) {
    const fix = "Start the container with the machine's control groups (`--cgroupns=host --privileged`).";
    return { name, ok: false, detail: "v2, but only a part of the tree is visible", fix };
  }
  // Users do not start it by themselves.
  const hidden =
    layout === "hybrid" && process.getuid?.() === 0
      ? { fix: "Start through scripts/isolate, so that crun can be used." }
      : {};
  return { name, ok: true, detail: `${layout} with ${controllers.join(", ")}`, ...hidden };
}

function seccomp(): Fact {
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

function init(): Fact {
  const name = "init for sandboxes";
  if (existsSync(initPath)) return { name, ok: true, detail: initPath };
  return {
    name,
    ok: true,
    detail: "a shell loop",
    fix: "An idle sandbox needs less memory with `apt-get install catatonit`.",
  };
}

function busybox(): Fact {
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

function disk(): Fact {
  return { name: "disk limits", ok: true, detail: "measured every few seconds" };
}

/** Programs that images need. */
async function images(): Promise<Fact> {
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

function overlay(): Fact {
  const ok = /^nodev\s+overlay$/m.test(readFileSync("/proc/filesystems", "utf8"));
  const fix = { fix: "Run `modprobe overlay`; every sandbox's files are stacked by it." };
  return { name: "overlay filesystem", ok, detail: ok ? "available" : "not loaded", ...(!ok && fix) };
}

function kernel(): Fact {
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
