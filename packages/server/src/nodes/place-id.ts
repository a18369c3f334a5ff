import { randomUUID } from "node:crypto";
import { link, open, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Returns the random id of a data folder, by which servers know whether they share its sandboxes.
 * The id is a UUID in the file `place-id` (mode 0600), which the first process creates and nobody
 * changes. Any number of processes may call this function at once. Throws ConfigInvalid when the
 * file is damaged, and what the file system throws.
 */
export async function loadPlaceId(dataDir: string): Promise<string> {
  const file = join(dataDir, "place-id");
  const text = await readFile(file, "utf8").catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    await create(file);
    return readFile(file, "utf8");
  });
  const id = text.trim();
  if (!uuid.test(id)) throw new PlatformError("PlaceIdDamaged", { file });
  return id;
}

/** Creates the file with all of its content, unless another process has just created it. */
async function create(file: string): Promise<void> {
  const id = randomUUID();
  const draft = `${file}.${id}`;
  try {
    const handle = await open(draft, "wx", 0o600);
    try {
      await handle.writeFile(`${id}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await link(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await rm(draft, { force: true });
  }
}
