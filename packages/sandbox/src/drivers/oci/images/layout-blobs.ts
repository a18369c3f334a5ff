import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** Lists the digests of the blobs of an OCI layout. They may differ from those of the registry. */
export async function listBlobs(layout: string): Promise<string[]> {
  const read = async (path: string) => JSON.parse(await readFile(join(layout, path), "utf8"));
  const { digest } = (await read("index.json")).manifests[0] as { digest: string };
  const { config, layers } = (await read(`blobs/${digest.replace(":", "/")}`)) as Record<string, unknown> & {
    config: { digest: string };
    layers: { digest: string }[];
  };
  return [digest, config.digest, ...layers.map((layer) => layer.digest)];
}
