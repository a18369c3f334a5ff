import { execFile, execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { clusterKubeconfig } from "@sandpiper/sandbox/test/support/cluster-image";

const script = fileURLToPath(new URL("../../../../scripts/helm", import.meta.url));

/** Path of the Helm chart. */
export const chart = fileURLToPath(new URL("../../../../charts/sandpiper", import.meta.url));

/** The program of Helm; undefined where `scripts/helm` has not built it. */
export function findHelm(): string | undefined {
  try {
    return execFileSync(script, ["--find"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return undefined;
  }
}

/** Runs Helm on the test cluster and returns its output. Rejects with its messages. */
export async function helm(...argv: string[]): Promise<string> {
  const program = findHelm();
  if (program === undefined) throw new Error("Helm is not built: run  scripts/helm");
  const options = { encoding: "utf8", maxBuffer: 2 ** 26 } as const;
  const { stdout } = await promisify(execFile)(
    program,
    [...argv, "--kubeconfig", clusterKubeconfig()],
    options,
  );
  return stdout;
}
