import { statSync } from "node:fs";
import type { ContainerInspectInfo } from "dockerode";

/**
 * Bytes of the files that an engine on this machine keeps for /etc/hosts, /etc/hostname and
 * /etc/resolv.conf of a container. Root inside may write to them, and the engine counts them
 * nowhere.
 */
export function measureNameFiles(
  container: Pick<ContainerInspectInfo, "HostsPath" | "HostnamePath" | "ResolvConfPath">,
): number {
  const paths = [container.HostsPath, container.HostnamePath, container.ResolvConfPath];
  return paths.reduce((sum, path) => sum + (path ? sizeOf(path) : 0), 0);
}

function sizeOf(path: string): number {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() ? stat.blocks * 512 : 0;
}
