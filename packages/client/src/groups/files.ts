import { type CallOptions, type Content, path } from "../connection.ts";
import type { PageOf, PageQuery } from "../pages.ts";
import type { FileEntry, Success } from "../types.ts";
import { Group } from "./group.ts";

/** Uploads and downloads have no time-out of their own. */
const unlimited = { timeoutMs: Number.POSITIVE_INFINITY };

/** Files of a sandbox. Paths are absolute, or relative to its working folder. */
export class Files extends Group {
  /** A page of a folder, by name. */
  list(
    sandbox: string,
    query?: PageQuery & { path?: string },
    options?: CallOptions,
  ): Promise<PageOf<FileEntry>> {
    return this.connection.get(path`/api/v1/sandboxes/${sandbox}/files/list`, { ...query }, options);
  }

  /** The content of a file as it arrives. */
  read(sandbox: string, file: string, options?: CallOptions): Promise<ReadableStream<Uint8Array>> {
    return this.connection.stream(path`/api/v1/sandboxes/${sandbox}/files`, { path: file }, options);
  }

  /** The content of a text file, UTF-8. */
  async readText(sandbox: string, file: string, options?: CallOptions): Promise<string> {
    return new Response(await this.read(sandbox, file, options)).text();
  }

  /** Writes a file, and the folders that it needs. */
  write(sandbox: string, file: string, content: Content, options?: CallOptions): Promise<Success> {
    return this.connection.json("PUT", path`/api/v1/sandboxes/${sandbox}/files`, {
      ...unlimited,
      ...options,
      query: { path: file },
      content,
      type: "application/octet-stream",
    });
  }

  /** Removes a file or an empty folder; a folder with its content only with `recursive`. */
  remove(
    sandbox: string,
    file: string,
    query?: { recursive?: boolean },
    options?: CallOptions,
  ): Promise<Success> {
    const all = { path: file, ...query };
    return this.connection.json("DELETE", path`/api/v1/sandboxes/${sandbox}/files`, {
      ...options,
      query: all,
    });
  }

  /** A folder as a tar stream, without the names and relative paths in `exclude`. */
  pack(
    sandbox: string,
    query?: { path?: string; exclude?: readonly string[]; gzip?: boolean; sparse?: boolean },
    options?: CallOptions,
  ): Promise<ReadableStream<Uint8Array>> {
    return this.connection.stream(path`/api/v1/sandboxes/${sandbox}/archive`, { ...query }, options);
  }

  /** Unpacks a tar stream into a folder. `sparse`: it has holes in the form of PAX 1.0. */
  unpack(
    sandbox: string,
    tar: Content,
    query?: { path?: string; sparse?: boolean },
    options?: CallOptions,
  ): Promise<Success> {
    return this.connection.json("PUT", path`/api/v1/sandboxes/${sandbox}/archive`, {
      ...unlimited,
      ...options,
      query: { ...query },
      content: tar,
      type: "application/x-tar",
    });
  }
}
