import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../config/config.ts";
import { errorText } from "../errors.ts";
import { cgroupLayout } from "../sandboxes/drivers/oci/cgroups.ts";
import { initPath } from "../sandboxes/drivers/oci/host.ts";
import { OciDriver } from "../sandboxes/drivers/oci/oci-driver.ts";
import { findRuntime } from "../sandboxes/drivers/oci/runtime.ts";
import { profilePackage, profilePath } from "../sandboxes/drivers/oci/seccomp.ts";
import { hostSpec } from "../sandboxes/specs.ts";
import { type Finding, finding } from "./finding.ts";
import { duration } from "./style.ts";

/** What sandboxes need of this machine, and whether one really starts. */
export async function examineSandboxes(config: Config): Promise<Finding[]> {
  return [await runtime(config), userNamespaces(), cgroups(), seccomp(), init(), images(), await trial(config)];
}

async function runtime(config: Config): Promise<Finding> {
  try {
    const { path, version } = await findRuntime(config.runtime);
    return finding("OCI runtime", true, true, `${path} ${version}`);
  } catch (error) {
    return finding("OCI runtime", true, false, "none that works", errorText(error));
  }
}

function userNamespaces(): Finding {
  const file = "/proc/sys/user/max_user_namespaces";
  const limit = existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
  const advice =
    limit === 0 && existsSync(file)
      ? "Allow them: sysctl -w user.max_user_namespaces=15000"
      : "Use a kernel with user namespaces.";
  return finding("user namespaces", true, limit > 0, limit > 0 ? `up to ${limit}` : "not allowed", advice);
}

function cgroups(): Finding {
  const layout = cgroupLayout();
  const advice = "Mount control groups at /sys/fs/cgroup; inside of a container, give it a writable cgroup tree.";
  return finding("control groups", true, layout !== "none", layout === "none" ? "not mounted" : `cgroup ${layout}`, advice);
}

function seccomp(): Finding {
  const ok = existsSync(profilePath);
  return finding(
    "seccomp profile",
    true,
    ok,
    ok ? profilePath : `${profilePath} is missing`,
    `apt-get install ${profilePackage}`,
  );
}

function init(): Finding {
  const ok = existsSync(initPath);
  return finding("init", false, ok, ok ? initPath : `${initPath} is missing`, "apt-get install catatonit");
}

function images(): Finding {
  return finding("images", false, true, "none needed: the spec `host` shows this machine's /usr");
}

/** Starts a sandbox, runs a command in it and removes it. */
async function trial(config: Config): Promise<Finding> {
  const name = "sandbox";
  if (process.getuid?.() !== 0)
    return finding(name, false, false, "not tried: this is not root", "Run `sudo bin/sandpiper doctor` to try one.");
  const dir = await mkdtemp(join(tmpdir(), "sandpiper-doctor-"));
  const driver = new OciDriver({ dir, runtime: config.runtime });
  const id = "doctor";
  try {
    await driver.open();
    const begin = performance.now();
    await driver.start({ id, spec: hostSpec(config.limits) });
    const command = await driver.exec(id, { argv: ["true"] });
    const { code } = await command.exit;
    const taken = duration(performance.now() - begin);
    return finding(
      name,
      true,
      code === 0,
      code === 0 ? `started and ran a command in ${taken}` : `a command in it ended with ${code}`,
    );
  } catch (error) {
    return finding(name, true, false, "does not start", errorText(error));
  } finally {
    await driver.remove(id).catch(() => {});
    await driver.close();
    await rm(dir, { recursive: true, force: true });
  }
}
