import { existsSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { FileBounds, FileUsage } from "../../driver.ts";
import { DiskUsage } from "../common/disk-usage.ts";
import type { InspectedContainer } from "./containers.ts";

type WrittenContainer = Pick<
  InspectedContainer,
  "GraphDriver" | "HostsPath" | "HostnamePath" | "ResolvConfPath"
>;

/** Measures the files that containers of an engine on this machine have written. */
export class WrittenFiles {
  /** By folder of the engine's layers; an engine has one. */
  readonly #layers = new Map<string, DiskUsage>();

  /**
   * Undefined when the engine's layers are no folders of this machine: then only the engine can
   * measure them.
   */
  async measure(container: WrittenContainer, bounds: FileBounds): Promise<FileUsage | undefined> {
    // The type knows only the fields of one of the engine's storage drivers.
    const written = (container.GraphDriver?.Data as Partial<Record<string, string>> | null)?.UpperDir;
    if (written === undefined || !existsSync(written)) return undefined;
    const layer = dirname(written);
    const folder = dirname(layer);
    const layers = this.#layers.get(folder) ?? new DiskUsage(folder);
    this.#layers.set(folder, layers);
    const usage = await layers.measure(join(basename(layer), basename(written)), [], bounds);
    return { ...usage, diskBytes: usage.diskBytes + measureNameFiles(container) };
  }
}

/**
 * Bytes of the files that an engine keeps for /etc/hosts, /etc/hostname and /etc/resolv.conf of a
 * container. Root inside may write to them, and the engine counts them nowhere.
 */
export function measureNameFiles(container: Omit<WrittenContainer, "GraphDriver">): number {
  const paths = [container.HostsPath, container.HostnamePath, container.ResolvConfPath];
  return paths.reduce((sum, path) => sum + (path ? sizeOf(path) : 0), 0);
}

function sizeOf(path: string): number {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() ? stat.blocks * 512 : 0;
}
