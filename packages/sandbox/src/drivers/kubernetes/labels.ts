import type { V1ObjectMeta } from "@kubernetes/client-node";

/** Labels of pods and claims. */
export const labels = {
  installation: "sandpiper/installation",
  sandbox: "sandpiper/sandbox",
  snapshot: "sandpiper/snapshot",
  /** `yes`: the claim does not have the image's files of its folders yet. */
  unseeded: "sandpiper/unseeded",
  /** `yes`: the pod copies files or reads an image. */
  helper: "sandpiper/helper",
  /** Digest of the kind of sandbox for which a warm pod and its claim wait. */
  warm: "sandpiper/warm",
} as const;

export const annotations = {
  /** `yes`: the processes of the pod are paused. */
  paused: "sandpiper/paused",
  /** JSON of a pod's `PodFacts` or of a claim's `ClaimFacts`. */
  facts: "sandpiper/facts",
} as const;

/** Returns the name of the pod and the claim of a sandbox that did not take a warm pod. */
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

/** Reads the facts of a pod or a claim; undefined when the annotation is missing or damaged. */
export function readFacts<T>(metadata: V1ObjectMeta | undefined): T | undefined {
  try {
    return JSON.parse(metadata?.annotations?.[annotations.facts] ?? "") as T;
  } catch {
    return undefined;
  }
}
