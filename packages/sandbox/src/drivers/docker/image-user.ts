import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Parser } from "tar";
import type { SandboxUser } from "../../driver.ts";
import { findUser } from "../common/images/find-user.ts";
import { labels } from "./container-options.ts";
import type { Engine } from "./engine.ts";

/** The rest of longer files is ignored. */
const maxFileBytes = 2 ** 20;

/**
 * Looks up a user in an image's own files (see `findUser`), through a container that never runs.
 * `reference` names the image in messages.
 */
export async function findImageUser(
  engine: Engine,
  installation: string,
  image: string,
  text: string,
  reference: string,
): Promise<SandboxUser> {
  const helper = await engine.request("read an image", (abortSignal) =>
    engine.docker.createContainer({
      ...{ Image: image, Entrypoint: ["/none"], Cmd: [], NetworkDisabled: true, abortSignal },
      Labels: { [labels.installation]: installation, [labels.helper]: "yes" },
    }),
  );
  const root = mkdtempSync(join(tmpdir(), "sandpiper-users-"));
  try {
    mkdirSync(join(root, "etc"));
    for (const path of ["/etc/passwd", "/etc/group"])
      writeFileSync(join(root, path), await readFile(engine, helper.id, path));
    return findUser(root, text, `the image ${reference.replace(/@.*/, "")}`);
  } finally {
    rmSync(root, { recursive: true });
    const container = engine.docker.getContainer(helper.id);
    await engine.request("remove a container", () => container.remove({ force: true, v: true }), {
      404: () => undefined,
    });
  }
}

/** The text of a file of a container, through at most one link; empty when it does not exist. */
async function readFile(engine: Engine, container: string, path: string, mayFollow = true): Promise<string> {
  const archive = await engine.request(
    "read a file of an image",
    (abortSignal) => engine.docker.getContainer(container).getArchive({ path, abortSignal }),
    { 404: () => undefined },
  );
  if (!archive) return "";
  const { text, link } = await firstEntry(archive);
  return link !== undefined && mayFollow
    ? await readFile(engine, container, join("/etc", link), false)
    : text;
}

/** The engine resolves links within the image, so the entry is the image's own. */
function firstEntry(archive: NodeJS.ReadableStream): Promise<{ text: string; link: string | undefined }> {
  return new Promise((resolve, reject) => {
    let text = "";
    let link: string | undefined;
    const parser = new Parser({
      onReadEntry: (entry) => {
        if (entry.type === "SymbolicLink") link = entry.linkpath;
        entry.on("data", (chunk: Buffer) => {
          if (text.length < maxFileBytes) text += chunk.toString("utf8");
        });
      },
    });
    parser.on("end", () => resolve({ text, link }));
    parser.on("error", reject);
    archive.on("error", reject);
    archive.pipe(parser as NodeJS.WritableStream);
  });
}
