import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Parser } from "tar";
import type { SandboxUser } from "../../driver.ts";
import { findUser } from "../common/images/users.ts";
import { labels } from "./container.ts";
import type { Engine } from "./engine.ts";

/** Longer files of users are not read on, bytes. */
const maxFileBytes = 2 ** 20;

/**
 * Looks up the user that a text means in an image's own files (see `findUser`). `reference` names the image in messages. The image is looked
 * into through a container that never runs.
 */
export async function userOfImage(
  engine: Engine,
  installation: string,
  image: string,
  text: string,
  reference: string,
): Promise<SandboxUser> {
  const helper = await engine.ask("look into an image", (abortSignal) =>
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
    await engine.ask("remove a container", () => container.remove({ force: true, v: true }), {
      404: () => undefined,
    });
  }
}

/** The text of a file of a container, through one link at most; empty when there is none. */
async function readFile(engine: Engine, container: string, path: string, mayFollow = true): Promise<string> {
  const archive = await engine.ask(
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

/** The engine reads links of an image within its root, so what it gives is the image's own. */
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
    archive.pipe(parser as unknown as NodeJS.WritableStream);
  });
}
