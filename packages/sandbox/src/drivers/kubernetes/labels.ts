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
  /** A pod and a claim that wait for a sandbox, with the kind of sandbox as a digest. */
  warm: "sandpiper/warm",
} as const;

export const annotations = {
  /** Pod: its processes are stopped. */
  paused: "sandpiper/paused",
  /** Pod: its `KnownPod` as JSON. Claim: its image and folders (`ClaimFacts`). */
  facts: "sandpiper/facts",
} as const;

/** Name of the pod and the claim of a sandbox that did not take those of the warm pool. */
export function toSandboxName(installation: string, id: string): string {
  return `sandpiper-${installation}-${id}`;
}

export function toSnapshotName(installation: string, snapshotId: string): string {
  return `sandpiper-${installation}-snapshot-${snapshotId}`;
}

/** Selects the objects of an installation that have a label. */
export function selectLabel(installation: string, label: string, value?: string): string {
  return `${labels.installation}=${installation},${label}${value === undefined ? "" : `=${value}`}`;
}

/** JSON that this driver wrote; undefined when it is missing or damaged. */
export function readFacts<T>(metadata: V1ObjectMeta | undefined): T | undefined {
  try {
    return JSON.parse(metadata?.annotations?.[annotations.facts] ?? "") as T;
  } catch {
    return undefined;
  }
}
