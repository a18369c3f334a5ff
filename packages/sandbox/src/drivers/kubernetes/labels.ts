import type { V1ObjectMeta } from "@kubernetes/client-node";

/** Labels of pods and claims. */
export const labels = {
  installation: "sandpiper/installation",
  sandbox: "sandpiper/sandbox",
  snapshot: "sandpiper/snapshot",
  /** `yes`: a claim that does not have the image's files of its folders yet. */
  unseeded: "sandpiper/unseeded",
  /** `yes`: a pod that copies files or reads an image. */
  helper: "sandpiper/helper",
} as const;

export const annotations = {
  /** Pod: its processes are stopped. */
  paused: "sandpiper/paused",
  /** Pod: its `KnownPod` as JSON. Claim: its image and folders (`ClaimFacts`). */
  facts: "sandpiper/facts",
} as const;

/** Name of a sandbox's pod and claim: at most one of each exists. */
export function toSandboxName(installation: string, id: string): string {
  return `sandpiper-${installation}-${id}`;
}

export function toSnapshotName(installation: string, snapshotId: string): string {
  return `sandpiper-${installation}-snapshot-${snapshotId}`;
}

/** Selects the objects of an installation that have a label. */
export function selectLabel(installation: string, label: string): string {
  return `${labels.installation}=${installation},${label}`;
}

/** JSON that this driver wrote; undefined when it is missing or damaged. */
export function readFacts<T>(metadata: V1ObjectMeta | undefined): T | undefined {
  try {
    return JSON.parse(metadata?.annotations?.[annotations.facts] ?? "") as T;
  } catch {
    return undefined;
  }
}
