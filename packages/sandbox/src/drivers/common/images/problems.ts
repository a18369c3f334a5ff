import { PlatformError } from "@sandpiper/core/errors";
import { trimTail } from "@sandpiper/core/trim";
import type { ImageReference } from "../../../specs/image-reference.ts";

/** The registry does not answer, so the image may be available later. */
export class RegistryUnreachable extends PlatformError<"RegistryUnreachable"> {
  constructor(registry: string, reason: string) {
    super("RegistryUnreachable", { registry, reason });
  }
}

/** Turns the stderr of a failed skopeo into an error by its words: it has no error codes. */
export function toFetchError(
  image: ImageReference,
  { problem, timedOut }: { problem: string; timedOut: boolean },
): PlatformError {
  const has = (words: RegExp) => words.test(problem);
  const reason = shortenReason(problem);
  if (has(/no space left on device|disk quota exceeded/i)) return new PlatformError("ImageDiskFull", image);
  if (has(/manifest does not match provided (manifest )?digest|digest did not match/i))
    return image.digest === undefined
      ? new PlatformError("ImageInvalid", {
          name: image.name,
          reason: "a part of it is not what its manifest names",
        })
      : new PlatformError("ImageDigestWrong", { name: image.name, digest: image.digest });
  const { name } = image;
  if (image.source !== "registry")
    return has(/no such file or directory|no descriptor found|not found/i)
      ? new PlatformError("ImageFileMissing", { name })
      : new PlatformError("ImageFileUnreadable", { name, reason });
  const { registry } = image;
  if (timedOut) return new RegistryUnreachable(registry, "it does not answer");
  if (has(/toomanyrequests|too many requests/i)) return new PlatformError("RegistryBusy", { registry });
  if (
    has(
      /unauthorized|authentication required|access to the resource is denied|invalid username|status (code )?40[13]|\b40[13] /i,
    )
  )
    return new PlatformError("RegistryDenied", { registry, name });
  if (has(/manifest unknown|name unknown|repository name not known|not found|status (code )?404|\b404 /i))
    return new PlatformError("RegistryImageMissing", {
      registry,
      name: image.digest ? `${name}@${image.digest}` : name,
    });
  if (has(/server gave HTTP response to HTTPS client/i))
    return new PlatformError("RegistryPlainHttp", { registry });
  if (has(/x509|certificate/i)) return new PlatformError("RegistryUntrusted", { registry, reason });
  if (has(/no such host/i)) return new RegistryUnreachable(registry, "no such host");
  if (
    has(
      /dial tcp|i\/o timeout|connection (refused|reset)|unreachable|server closed idle|EOF|timeout|deadline|status (code )?5\d\d|\b50[0234] /i,
    )
  )
    return new RegistryUnreachable(registry, reason);
  return new PlatformError("ImageFetchFailed", { name, reason });
}

/** The last part of a chain of Go errors, without the queries of URLs, which may hold tokens. */
export function shortenReason(problem: string): string {
  const text = trimTail(problem.replace(/\?[^\s"]*/g, ""), ". \t\r\n");
  const parts = text.split(": ");
  return parts.slice(-2).join(": ").slice(-300) || "it ended without a message";
}
