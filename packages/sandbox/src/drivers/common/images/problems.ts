import { PlatformError } from "@sandpiper/core/errors";
import type { ImageReference } from "../../../specs/image-reference.ts";
import type { ToolResult } from "../../oci/images/tool.ts";

/** The image cannot be had now, but perhaps later: its registry does not answer. */
export class RegistryUnreachable extends PlatformError {
  constructor(message: string) {
    super("SandboxSpecUnusable", message);
  }
}

export function unusable(message: string): PlatformError {
  return new PlatformError("SandboxSpecUnusable", message);
}

export function diskFull(image: ImageReference): PlatformError {
  return new PlatformError(
    "StorageFull",
    `There is not enough disk space for the image ${image.name}: free some in the data folder.`,
  );
}

export function wrongDigest(image: ImageReference): PlatformError {
  return unusable(
    `What is stored as ${image.name} does not have the digest ${image.digest}: someone changed it, or the digest is wrong.`,
  );
}

/** What a failed skopeo says, as one sentence on what to do. Its messages have no codes, so their words decide. */
export function fetchProblem(image: ImageReference, { problem, timedOut }: ToolResult): PlatformError {
  const has = (words: RegExp) => words.test(problem);
  if (has(/no space left on device|disk quota exceeded/i)) return diskFull(image);
  if (has(/manifest does not match provided (manifest )?digest|digest did not match/i))
    return wrongDigest(image);
  if (image.source !== "registry") {
    const there = !has(/no such file or directory|no descriptor found|not found/i);
    return unusable(
      `${image.name} ${there ? `cannot be read as an image: ${detail(problem)}` : "does not exist"}.`,
    );
  }
  const { registry, name } = image;
  if (timedOut) return new RegistryUnreachable(`The registry ${registry} does not answer.`);
  if (has(/toomanyrequests|too many requests/i))
    return unusable(`The registry ${registry} refuses further requests for now: try later.`);
  if (
    has(
      /unauthorized|authentication required|access to the resource is denied|invalid username|status (code )?40[13]|\b40[13] /i,
    )
  ) {
    return unusable(
      `The registry ${registry} refuses access to ${name}: it does not exist, or needs other credentials than those in SANDPIPER_REGISTRY_AUTH.`,
    );
  }
  if (has(/manifest unknown|name unknown|repository name not known|not found|status (code )?404|\b404 /i))
    return unusable(
      `The registry ${registry} has no image ${image.digest ? `${name}@${image.digest}` : name}.`,
    );
  if (has(/server gave HTTP response to HTTPS client/i))
    return unusable(
      `The registry ${registry} speaks plain HTTP, which is accepted of loopback addresses alone.`,
    );
  if (has(/x509|certificate/i))
    return unusable(`The certificate of the registry ${registry} is not trusted here: ${detail(problem)}.`);
  if (has(/no such host/i))
    return new RegistryUnreachable(`The registry ${registry} cannot be found: no such host.`);
  if (
    has(
      /dial tcp|i\/o timeout|connection (refused|reset)|unreachable|EOF|timeout|deadline|status (code )?5\d\d|\b50[0234] /i,
    )
  )
    return new RegistryUnreachable(`The registry ${registry} cannot be reached: ${detail(problem)}.`);
  return unusable(`The image ${name} cannot be fetched: ${detail(problem)}.`);
}

/** The last part of a chain of Go errors, without the queries of addresses: they may hold tokens. */
export function detail(problem: string): string {
  const text = problem.replace(/\?[^\s"]*/g, "").replace(/[.\s]+$/, "");
  const parts = text.split(": ");
  return parts.slice(-2).join(": ").slice(-300) || "it ended without a message";
}
