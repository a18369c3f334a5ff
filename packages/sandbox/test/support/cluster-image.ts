import { execFile, execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Name of a test image in the test cluster. It has busybox and an unprivileged user. */
export const clusterImage = "sandpiper.test/busybox:1";

const script = fileURLToPath(new URL("../../../../scripts/cluster/cluster", import.meta.url));

/** Path of the test cluster's kubeconfig. */
export function clusterKubeconfig(): string {
  return execFileSync(script, ["kubeconfig"], { encoding: "utf8" }).trim();
}

/**
 * Writes the kubeconfig of the test cluster with other credentials and maybe another address.
 * Returns the path.
 */
export function writeKubeconfig(path: string, token: string, server?: string): string {
  const text = readFileSync(clusterKubeconfig(), "utf8");
  const users = `users:\n- name: admin\n  user: {token: ${token}}\n`;
  const host = /server: "([^"]+)"/.exec(text)![1]!;
  writeFileSync(path, (text.slice(0, text.indexOf("users:")) + users).replace(host, server ?? host));
  return path;
}

/** Makes the image from the machine's static busybox and loads it into the test cluster. */
export function loadClusterImage(): void {
  const dir = mkdtempSync("/tmp/sandpiper-image-");
  try {
    const root = join(dir, "root");
    for (const folder of ["bin", "etc", "tmp", "home/agent", "root"])
      mkdirSync(join(root, folder), { recursive: true });
    chmodSync(root, 0o755);
    chmodSync(join(root, "tmp"), 0o1777);
    copyFileSync("/bin/busybox", join(root, "bin/busybox"));
    const applets = execFileSync("/bin/busybox", ["--list"], { encoding: "utf8" }).trim().split("\n");
    for (const applet of applets) if (applet !== "busybox") symlinkSync("busybox", join(root, "bin", applet));
    writeFileSync(
      join(root, "etc/passwd"),
      "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n",
    );
    writeFileSync(join(root, "etc/group"), "root:x:0:\nagent:x:1000:\nstaff:x:50:agent\n");
    writeFileSync(join(root, "home/agent/.profile"), "of the image\n");
    symlinkSync(".profile", join(root, "home/agent/link"));
    execFileSync("chown", ["-Rh", "1000:1000", join(root, "home/agent")]);
    const archive = join(dir, "image.tar");
    execFileSync(script, ["make-image", clusterImage, root, archive, "/bin/sh"]);
    execFileSync(script, ["load-image", archive]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Runs kubectl on the test cluster and returns its output. Throws an error with its message. */
export function kubectl(...argv: string[]): string {
  return execFileSync(...kubectlCommand(argv), { encoding: "utf8" });
}

/** Runs kubectl without blocking this process. Ignores its exit code. */
export async function kubectlAside(...argv: string[]): Promise<{ stdout: string; stderr: string }> {
  return await new Promise((resolve) =>
    execFile(...kubectlCommand(argv), (_error, stdout, stderr) => resolve({ stdout, stderr })),
  );
}

function kubectlCommand(argv: string[]): [string, string[]] {
  const home = process.env.KUBE_TESTBED_HOME ?? join(homedir(), ".cache/kube-testbed");
  return [join(home, "bin/kubectl"), ["--kubeconfig", clusterKubeconfig(), ...argv]];
}
