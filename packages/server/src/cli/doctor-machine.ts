import { existsSync, readFileSync, statSync } from "node:fs";
import { processShare } from "@sandpiper/sandbox/drivers/common/process-share";
import { isRootless } from "@sandpiper/sandbox/drivers/common/uid-range";
import { maxOpenFiles } from "@sandpiper/sandbox/drivers/oci/container/rlimits";
import type { Config } from "../config/config.ts";
import { type DoctorFinding, finding } from "./finding.ts";

/** Sandboxes that may use all their processes at the same time. */
const wantedFullSandboxes = 20;

/** Checks what all sandboxes share with the rest of the machine. */
export function examineMachine(config: Config): DoctorFinding[] {
  return [checkDevices(), checkOpenFiles(config), checkProcessIds(config)];
}

/** Devices that every program uses, and those that containers are known to damage. */
const devices = ["null", "zero", "full", "random", "urandom", "tty", "fuse"];
/** Owner of the machine's files in a user namespace. */
const overflowUid = 65_534;

/** A device that is no device, or that not root owns, can be replaced or broken by others. */
function checkDevices(): DoctorFinding {
  const wrong = devices.flatMap((name) => {
    const path = `/dev/${name}`;
    const problem = findDeviceProblem(path);
    return problem === undefined ? [] : [{ path, problem }];
  });
  const paths = wrong.map(({ path }) => path).join(" ");
  return finding(
    "devices",
    false,
    wrong.length === 0,
    wrong.map(({ path, problem }) => `${path} ${problem}`).join(", ") || "owned by root",
    `Run as root \`chown root: ${paths}; chmod 666 ${paths}\`, and find out what changed them.`,
  );
}

function findDeviceProblem(path: string): string | undefined {
  if (!existsSync(path)) return path === "/dev/fuse" ? undefined : "is missing";
  const stat = statSync(path);
  if (!stat.isCharacterDevice()) return "is no device";
  const mode = stat.mode & 0o777;
  // Only its group may use /dev/fuse on some machines.
  const isOpen = mode === 0o666 || path === "/dev/fuse";
  const isOwned = stat.uid === (isRootless() ? overflowUid : 0);
  return isOpen && isOwned ? undefined : `has the owner ${stat.uid} and the mode ${mode.toString(8)}`;
}

/** Other users of the machine cannot open files once sandboxes have opened `fs.file-max`. */
function checkOpenFiles({ limits }: Config): DoctorFinding {
  const most = Number(readFileSync("/proc/sys/fs/file-max", "latin1"));
  const wanted = 2 * maxOpenFiles * limits.pids;
  return finding(
    "open files",
    false,
    most >= wanted,
    `the machine allows ${most}`,
    `One sandbox may open ${maxOpenFiles * limits.pids}: run \`sysctl fs.file-max=${wanted}\` or more.`,
  );
}

/** All sandboxes together leave a part of the process ids to the machine, so more ids help more. */
function checkProcessIds({ limits }: Config): DoctorFinding {
  const most = Number(readFileSync("/proc/sys/kernel/pid_max", "latin1"));
  const full = Math.floor((most * processShare) / limits.pids);
  return finding(
    "process ids",
    false,
    full >= wantedFullSandboxes,
    `${most}, enough for ${full} sandboxes with ${limits.pids} processes each`,
    "Run `sysctl kernel.pid_max=4194304`.",
  );
}
