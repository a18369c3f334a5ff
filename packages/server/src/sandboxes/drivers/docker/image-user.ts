import { Parser } from "tar";
import { PlatformError } from "../../../errors.ts";
import type { SandboxUser } from "../../driver.ts";
import { labels } from "./container.ts";
import type { Engine } from "./engine.ts";

/** Longer files of users are not read on, bytes. */
const maxFileBytes = 2 ** 20;

/**
 * Looks up `name`, `uid`, `uid:gid` or `name:group` in an image's own files of users. Throws SandboxSpecUnusable when the image has no such
 * user or group. The image is looked into through a container that never runs.
 */
export async function userOfImage(engine: Engine, image: string, text: string, installation: string): Promise<SandboxUser> {
  const [user = "", group] = text.split(":");
  if (/^(root|0)?$/.test(user) && (group ?? "0") === "0") return { name: "root", uid: 0, gid: 0, home: "/root" };
  const helper = await engine.ask("look into an image", (abortSignal) =>
    engine.docker.createContainer({
      ...{ Image: image, Entrypoint: ["/none"], Cmd: [], NetworkDisabled: true, abortSignal },
      Labels: { [labels.installation]: installation, [labels.helper]: "yes" },
    }),
  );
  try {
    const passwd = rows(await readFile(engine, helper.id, "/etc/passwd"));
    const groups = group === undefined || /^\d+$/.test(group) ? [] : rows(await readFile(engine, helper.id, "/etc/group"));
    const found = passwd.find((row) => row[0] === user) ?? passwd.find((row) => row[2] === user);
    if (!found && !/^\d{1,10}$/.test(user)) throw new PlatformError("SandboxSpecUnusable", `The image has no user "${user}".`);
    const gid = group === undefined ? Number(found?.[3] ?? 0) : Number(groups.find((row) => row[0] === group)?.[2] ?? group);
    if (!Number.isInteger(gid)) throw new PlatformError("SandboxSpecUnusable", `The image has no group "${group}".`);
    return { name: found?.[0] ?? user, uid: Number(found?.[2] ?? user), gid, home: found?.[5] || "/" };
  } finally {
    await engine.ask("remove a container", () => engine.docker.getContainer(helper.id).remove({ force: true, v: true }), {
      404: () => undefined,
    });
  }
}

function rows(text: string): string[][] {
  return text.split("\n").map((line) => line.split(":"));
}

/** The text of a file of a container; empty when there is none. */
async function readFile(engine: Engine, container: string, path: string): Promise<string> {
  const archive = await engine.ask(
    "read a file of an image",
    (abortSignal) => engine.docker.getContainer(container).getArchive({ path, abortSignal }),
    { 404: () => undefined },
  );
  if (!archive) return "";
  return await new Promise((resolve, reject) => {
    let text = "";
    const parser = new Parser({
      onReadEntry: (entry) => {
        entry.on("data", (chunk: Buffer) => {
          if (text.length < maxFileBytes) text += chunk.toString("utf8");
        });
      },
    });
    parser.on("end", () => resolve(text));
    parser.on("error", reject);
    archive.on("error", reject);
    archive.pipe(parser as unknown as NodeJS.WritableStream);
  });
}
