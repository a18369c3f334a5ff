import { existsSync, readFileSync } from "node:fs";
import { release } from "node:os";
import { errorText } from "../../../errors.ts";
import { type CgroupLayout, cgroupLayout } from "./cgroups.ts";
import { initPath } from "./host.ts";
import { findRuntime } from "./runtime.ts";
import { profilePackage, profilePath } from "./seccomp.ts";

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
  return [await runtime(wanted), userNamespaces(), controlGroups(cgroupLayout()), seccomp(), init(), overlay(), kernel()];
}

async function runtime(wanted?: string): Promise<Fact> {
  try {
    const { kind, version } = await findRuntime(wanted);
    const slow = kind === "runc" && wanted === undefined;
    const fix = slow
      ? { fix: "crun starts sandboxes 2 to 4 times faster: run `apt-get install crun`, and start through scripts/isolate." }
      : {};
    return { name: "OCI runtime", ok: true, detail: `${kind} ${version}`, ...fix };
  } catch (error) {
    return { name: "OCI runtime", ok: false, detail: errorText(error), fix: "Run `apt-get install crun`." };
  }
}

function userNamespaces(): Fact {
  const name = "user namespaces";
  const most = readNumber("/proc/sys/user/max_user_namespaces");
  if (!existsSync("/proc/self/ns/user") || most === undefined) {
    return { name, ok: false, detail: "the kernel has none", fix: "Use a kernel with CONFIG_USER_NS." };
  }
  if (most === 0) return { name, ok: false, detail: "switched off", fix: "Run `sysctl user.max_user_namespaces=15000`." };
  const ids = readFileSync("/proc/self/uid_map", "utf8").trim().split(/\s+/).map(Number);
  if ((ids[2] ?? 0) < 2 ** 31) {
    const fix = "Run the server outside of the container or user namespace that it is in.";
    return { name, ok: false, detail: "only a part of the user ids is available here", fix };
  }
  return { name, ok: true, detail: `up to ${most}` };
}

/** What the limits of a sandbox need. */
const controllers = ["cpu", "memory", "pids"];

function controlGroups(layout: CgroupLayout): Fact {
  const name = "control groups";
  if (layout === "none")
    return { name, ok: false, detail: "not mounted", fix: "Mount them: `mount -t cgroup2 none /sys/fs/cgroup`." };
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
  const hidden = layout === "hybrid" ? { fix: "Start through scripts/isolate, so that crun can be used." } : {};
  return { name, ok: true, detail: `${layout} with ${controllers.join(", ")}`, ...hidden };
}

function seccomp(): Fact {
  const name = "system call filter";
  if (!/^Seccomp:/m.test(readFileSync("/proc/self/status", "utf8"))) {
    return { name, ok: false, detail: "the kernel has none", fix: "Use a kernel with CONFIG_SECCOMP_FILTER." };
  }
  if (existsSync(profilePath)) return { name, ok: true, detail: profilePath };
  return { name, ok: false, detail: `${profilePath} is missing`, fix: `Run \`apt-get install ${profilePackage}\`.` };
}

function init(): Fact {
  const name = "init for sandboxes";
  if (existsSync(initPath)) return { name, ok: true, detail: initPath };
  return { name, ok: true, detail: "a shell loop", fix: "An idle sandbox needs less memory with `apt-get install catatonit`." };
}

function overlay(): Fact {
  const ok = /^nodev\s+overlay$/m.test(readFileSync("/proc/filesystems", "utf8"));
  const fix = { fix: "Run `modprobe overlay`; every sandbox's files are stacked by it." };
  return { name: "overlay filesystem", ok, detail: ok ? "available" : "not loaded", ...(!ok && fix) };
}

function kernel(): Fact {
  const [major, minor] = release().split(".").map(Number);
  const ok = major! > 5 || (major === 5 && minor! >= 6);
  return { name: "kernel", ok, detail: release(), ...(!ok && { fix: "Use Linux 5.6 or newer; a folder as root needs 5.19." }) };
}

function readNumber(path: string): number | undefined {
  try {
    return Number(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}
