import { existsSync, readFileSync } from "node:fs";
import { release } from "node:os";
import { errorText } from "@sandpiper/core/errors";
import { findBusybox } from "../../common/busybox.ts";
import { hostInitPath } from "../../common/host.ts";
import { runProgram } from "../../common/run-program.ts";
import { profilePackage, profilePath } from "../../common/seccomp.ts";
import { isRootless } from "../../common/uid-range.ts";
import { type CgroupLayout, detectCgroupLayout } from "../cgroup/cgroups.ts";
import { findRuntime } from "./runtime.ts";

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
  return [
    await checkRuntime(wanted),
    checkUserNamespaces(),
    isRootless() ? withoutCgroups : checkCgroups(detectCgroupLayout()),
    checkSeccomp(),
    checkInit(),
    checkBusybox(),
    checkOverlay(),
    checkKernel(),
    passed("disk limits", "measured every few seconds"),
    await checkImageTools(),
  ];
}

function passed(name: string, detail: string, fix?: string): Check {
  return { name, ok: true, detail, ...(fix === undefined ? {} : { fix }) };
}

function failed(name: string, detail: string, fix: string): Check {
  return { name, ok: false, detail, fix };
}

async function checkRuntime(wanted?: string): Promise<Check> {
  const name = "OCI runtime";
  try {
    // For ordinary users scripts/rootless or scripts/isolate hides the v2 part.
    const { kind, version } = await findRuntime(
      wanted,
      process.getuid?.() === 0 ? detectCgroupLayout() : "v1",
    );
    const faster =
      "crun starts sandboxes 2 to 4 times faster: run `apt-get install crun`, and start through scripts/isolate.";
    return passed(name, `${kind} ${version}`, kind === "runc" && wanted === undefined ? faster : undefined);
  } catch (error) {
    const unset = wanted ? "Unset SANDPIPER_RUNTIME, and run" : "Run";
    return failed(name, errorText(error), `${unset} \`apt-get install crun\`.`);
  }
}

function checkUserNamespaces(): Check {
  const name = "user namespaces";
  const max = readNumber("/proc/sys/user/max_user_namespaces");
  if (!existsSync("/proc/self/ns/user") || max === undefined)
    return failed(name, "the kernel has none", "Use a kernel with CONFIG_USER_NS.");
  if (max === 0) return failed(name, "switched off", "Run `sysctl user.max_user_namespaces=15000`.");
  const ids = readFileSync("/proc/self/uid_map", "utf8").trim().split(/\s+/).map(Number);
  if (isRootless() && ids.length > 3)
    return passed(name, `of an ordinary user, with ${ids[5]} subordinate ids`);
  if ((ids[2] ?? 0) < 2 ** 31) {
    const fix = "Run the server outside of its container or user namespace.";
    return failed(name, "only a part of the user ids is available here", fix);
  }
  return passed(name, `up to ${max}`);
}

const withoutCgroups = passed(
  "control groups",
  "not for this user: memory and processes are limited for each process and user of a sandbox, CPUs are not",
  "Run the server as root if a sandbox as a whole needs limits.",
);

/** Controllers for the limits of a sandbox. */
const controllers = ["cpu", "memory", "pids"];

function checkCgroups(layout: CgroupLayout): Check {
  const name = "control groups";
  if (layout === "none")
    return failed(name, "not mounted", "Mount them: `mount -t cgroup2 none /sys/fs/cgroup`.");
  const available =
    layout === "v2"
      ? readFileSync("/sys/fs/cgroup/cgroup.controllers", "utf8").trim().split(" ")
      : controllers.filter((controller) => existsSync(`/sys/fs/cgroup/${controller}/cgroup.procs`));
  const missing = controllers.filter((controller) => !available.includes(controller)).join(", ");
  if (missing)
    return failed(name, `${layout} without ${missing}`, `Enable ${missing} in the kernel's command line.`);
  // The real root group has no type; a group that only looks like the root cannot have subgroups.
  if (layout === "v2" && existsSync("/sys/fs/cgroup/cgroup.type")) {
    const fix = "Start the container with the machine's control groups (`--cgroupns=host --privileged`).";
    return failed(name, "v2, but only a part of the tree is visible", fix);
  }
  const blocksCrun = layout === "hybrid" && process.getuid?.() === 0;
  const fix = blocksCrun ? "Start through scripts/isolate, so that crun can be used." : undefined;
  return passed(name, `${layout} with ${controllers.join(", ")}`, fix);
}

function checkSeccomp(): Check {
  const name = "system call filter";
  if (!/^Seccomp:/m.test(readFileSync("/proc/self/status", "utf8")))
    return failed(name, "the kernel has none", "Use a kernel with CONFIG_SECCOMP_FILTER.");
  if (existsSync(profilePath)) return passed(name, profilePath);
  return failed(name, `${profilePath} is missing`, `Run \`apt-get install ${profilePackage}\`.`);
}

function checkInit(): Check {
  const name = "init for sandboxes";
  if (existsSync(hostInitPath)) return passed(name, hostInitPath);
  return passed(name, "a shell loop", "An idle sandbox needs less memory with `apt-get install catatonit`.");
}

function checkBusybox(): Check {
  const name = "static busybox";
  const path = findBusybox();
  if (path !== undefined) return passed(name, path);
  return passed(name, "none", "Commands start 5 times faster with `apt-get install busybox-static`.");
}

async function checkImageTools(): Promise<Check> {
  const name = "images";
  const tools = ["skopeo", "umoci"];
  const results = await Promise.all(
    tools.map((tool) => runProgram([tool, "--version"], { timeoutMs: 5_000 })),
  );
  const missing = tools.filter((_, index) => results[index]!.code !== 0);
  if (missing.length === 0) return passed(name, "by skopeo and umoci");
  const fix = `Run \`apt-get install ${missing.join(" ")}\`; the spec \`host\` needs no image.`;
  return passed(name, `${missing.join(" and ")} not found`, fix);
}

function checkOverlay(): Check {
  const name = "overlay filesystem";
  if (/^nodev\s+overlay$/m.test(readFileSync("/proc/filesystems", "utf8"))) return passed(name, "available");
  return failed(name, "not loaded", "Run `modprobe overlay`; sandboxes need it for their files.");
}

function checkKernel(): Check {
  const [major, minor] = release().split(".").map(Number);
  if (major! > 5 || (major === 5 && minor! >= 6)) return passed("kernel", release());
  const fix = "Use Linux 5.6 or newer (an ordinary user's server: 5.11); a folder as root needs 5.19.";
  return failed("kernel", release(), fix);
}

function readNumber(path: string): number | undefined {
  try {
    return Number(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}
