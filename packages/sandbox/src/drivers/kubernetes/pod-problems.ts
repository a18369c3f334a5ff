import type { V1Pod } from "@kubernetes/client-node";
import { PlatformError } from "@sandpiper/core/errors";
import { shortenReason } from "../common/images/problems.ts";
import { sandboxStatus } from "./pod-options.ts";

export interface PodProblem {
  error: PlatformError;
  /** The pod cannot start later either. */
  isFinal: boolean;
}

const imageProblems = [
  "ErrImagePull",
  "ImagePullBackOff",
  "InvalidImageName",
  "ErrImageNeverPull",
  "ErrImageInspect",
];
const startProblems = [
  "CreateContainerConfigError",
  "CreateContainerError",
  "RunContainerError",
  "StartError",
];

/** Tells why a pod does not run yet; undefined when nothing is wrong. */
export function podProblem(pod: V1Pod): PodProblem | undefined {
  const waiting = sandboxStatus(pod)?.state?.waiting;
  const reason = waiting?.reason ?? "";
  if (imageProblems.includes(reason)) {
    const { image } = pod.spec!.containers[0]!;
    const text = shortenReason(waiting?.message ?? reason);
    return {
      error: new PlatformError("ClusterImageFailed", { image: image ?? "", reason: text }),
      isFinal: true,
    };
  }
  if (startProblems.includes(reason))
    return {
      error: new PlatformError("PodNotStarted", { reason: shortenReason(waiting?.message ?? reason) }),
      isFinal: true,
    };
  const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status !== "False") return undefined;
  // The problem is not final, because the cluster may get a node and another pod may end.
  const text = (scheduled.message ?? scheduled.reason ?? "no node has room").trim().replace(/\.$/, "");
  return { error: new PlatformError("PodUnschedulable", { reason: text.slice(0, 500) }), isFinal: false };
}

/** Tells why a pod has ended. The helper writes its reason to the pod's termination message. */
export function endReason(pod: V1Pod): string {
  const { terminated } = sandboxStatus(pod)?.state ?? {};
  const text = terminated?.message ?? pod.status?.message ?? terminated?.reason ?? "its first process ended";
  return text.trim().replace(/\.$/, "").slice(0, 500);
}
