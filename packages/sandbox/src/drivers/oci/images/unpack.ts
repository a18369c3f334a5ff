import { join } from "node:path";
import type { ImageReference } from "../../../specs/image-reference.ts";
import { detail, diskFull, unusable } from "../../common/images/problems.ts";
import { guardDisk } from "./disk-guard.ts";
import { runTool } from "./tool.ts";

/** Ids that an image's files may have. */
const idRange = 65_536;

/**
 * Unpacks the image of the OCI layout `layout` into the new folder `root`, by umoci, with the owners shifted by `idBase`. Device nodes are
 * left out: sandboxes get their own /dev, and to an overlay some of them mean that a file is deleted.
 * Throws SandboxSpecUnusable or StorageFull; `root` is then to be removed.
 */
export async function unpackImage(
  image: ImageReference,
  { layout, root, idBase }: { layout: string; root: string; idBase: number },
  signal: AbortSignal,
): Promise<void> {
  const abort = new AbortController();
  const either = AbortSignal.any([signal, abort.signal]);
  const guard = guardDisk(layout, () => abort.abort(diskFull(image)));
  const map = `0:${idBase}:${idRange}`;
  try {
    const argv = ["umoci", "raw", "unpack", "--image", ".:image", "--uid-map", map, "--gid-map", map, root];
    const unpacked = await runTool(argv, { cwd: layout, signal: either });
    if (/no space left on device|disk quota exceeded/i.test(unpacked.problem)) throw diskFull(image);
    if (!unpacked.ok)
      throw unusable(`The image ${image.name} cannot be unpacked: ${detail(unpacked.problem)}.`);
    // Folders that no layer describes belong to the server, whom the sandbox does not know.
    const owner = `${idBase}:${idBase}`;
    const unowned = ["(", "-uid", `-${idBase}`, "-o", "-gid", `-${idBase}`, ")"];
    const devices = ["(", "-type", "b", "-o", "-type", "c", ")", "-delete"];
    const cleaned = await runTool(
      ["find", root, ...devices, "-o", ...unowned, "-exec", "chown", "-h", owner, "{}", "+"],
      {
        signal: either,
      },
    );
    if (!cleaned.ok)
      throw unusable(`The image ${image.name} cannot be unpacked: ${detail(cleaned.problem)}.`);
    // A power failure after the image was given its final name must not leave empty files in it.
    await runTool(["sync", "--file-system", join(root, ".")], { signal: either });
  } finally {
    guard.end();
  }
}
