import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { ImageReference } from "../../../specs/image-reference.ts";
import { shortenReason } from "../../common/images/problems.ts";
import { guardDisk } from "./disk-guard.ts";
import { measureLayers } from "./measure-layers.ts";
import { runTool } from "./run-tool.ts";
import type { ImageLimits } from "./tar-meter.ts";

/** Ids that an image's files may have. */
const idRange = 65_536;

/**
 * Unpacks the image of the OCI layout `layout` into the new folder `root` by umoci, with the owners
 * shifted by `idBase`. Device nodes are left out: sandboxes have their own /dev, and an overlay
 * takes some of them for deleted files. Returns the bytes that the layers unpack to. Throws
 * SandboxSpecUnusable or StorageFull; the caller then removes `root`.
 */
export async function unpackImage(
  image: ImageReference,
  { layout, root, idBase, limits }: { layout: string; root: string; idBase: number; limits: ImageLimits },
  signal: AbortSignal,
): Promise<number> {
  const abort = new AbortController();
  const either = AbortSignal.any([signal, abort.signal]);
  const guard = guardDisk(layout, () => abort.abort(new PlatformError("ImageDiskFull", image)));
  const failed = (problem: string) =>
    new PlatformError("ImageUnpackFailed", { name: image.name, reason: shortenReason(problem) });
  const map = `0:${idBase}:${idRange}`;
  try {
    const argv = ["umoci", "raw", "unpack", "--image", ".:image", "--uid-map", map, "--gid-map", map, root];
    // Counting is faster than unpacking, so little is unpacked of an image that is too large.
    const measured = measureLayers(image.name, layout, limits, either).catch((error) => {
      abort.abort(error);
      return 0;
    });
    const unpacked = await runTool(argv, { cwd: layout, signal: either });
    const bytes = await measured;
    either.throwIfAborted();
    if (/no space left on device|disk quota exceeded/i.test(unpacked.problem))
      throw new PlatformError("ImageDiskFull", image);
    if (!unpacked.ok) throw failed(unpacked.problem);
    // The server owns folders that no layer describes; the sandbox does not know its id.
    const owner = `${idBase}:${idBase}`;
    const unowned = ["(", "-uid", `-${idBase}`, "-o", "-gid", `-${idBase}`, ")"];
    const devices = ["(", "-type", "b", "-o", "-type", "c", ")", "-delete"];
    const find = ["find", root, ...devices, "-o", ...unowned, "-exec", "chown", "-h", owner, "{}", "+"];
    const fixed = await runTool(find, { signal: either });
    if (!fixed.ok) throw failed(fixed.problem);
    // A power failure after the final rename must not leave empty files in the image.
    await runTool(["sync", "--file-system", join(root, ".")], { signal: either });
    return bytes;
  } finally {
    guard.end();
  }
}
