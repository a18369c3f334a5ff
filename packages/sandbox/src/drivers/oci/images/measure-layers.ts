import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { PlatformError } from "@sandpiper/core/errors";
import { type ImageLimits, TarMeter } from "./tar-meter.ts";

/** Bytes that are read at a time. */
const chunkSize = 2 ** 20;

/**
 * Counts the bytes that the layers of the image in an OCI layout unpack to. Throws
 * SandboxSpecUnusable as soon as a limit is exceeded, and the signal's reason. Ends early at a
 * layer that is damaged, which the program that unpacks it reports.
 */
export async function measureLayers(
  name: string,
  layout: string,
  limits: ImageLimits,
  signal: AbortSignal,
): Promise<number> {
  const meter = new TarMeter(name, limits);
  try {
    for (const file of await listLayers(layout)) {
      meter.nextLayer();
      await measure(file, meter, signal);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof PlatformError) throw error;
  }
  return meter.bytes;
}

async function measure(file: string, meter: TarMeter, signal: AbortSignal): Promise<void> {
  const handle = await open(file);
  try {
    const magic = Buffer.alloc(4);
    await handle.read(magic, 0, 4, 0);
    const source = handle.createReadStream({ start: 0, highWaterMark: chunkSize, autoClose: false });
    const stream = decompress(source, magic);
    const stop = () => {
      source.destroy();
      stream.destroy();
    };
    signal.addEventListener("abort", stop);
    try {
      signal.throwIfAborted();
      for await (const chunk of stream) meter.take(chunk as Buffer);
    } finally {
      signal.removeEventListener("abort", stop);
      stop();
    }
  } finally {
    await handle.close();
  }
}

async function listLayers(layout: string): Promise<string[]> {
  const blob = (digest: string) => join(layout, "blobs", digest.replace(":", "/"));
  const read = async (path: string) => JSON.parse(await readFile(path, "utf8"));
  const { digest } = (await read(join(layout, "index.json"))).manifests[0] as { digest: string };
  const { layers } = (await read(blob(digest))) as { layers: { digest: string }[] };
  return layers.map((layer) => blob(layer.digest));
}

/** The stream itself when it is not compressed. */
function decompress(source: Readable, magic: Buffer): Readable {
  const isZstd = magic.readUInt32BE(0) === 0x28b52ffd;
  if (!isZstd && magic.readUInt16BE(0) !== 0x1f8b) return source;
  const decoder = isZstd ? createZstdDecompress({ chunkSize }) : createGunzip({ chunkSize });
  source.on("error", (error) => decoder.destroy(error));
  return source.pipe(decoder);
}
