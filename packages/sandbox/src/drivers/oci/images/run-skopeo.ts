import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { ConnectProxy } from "@sandpiper/core/outbound/connect-proxy";
import type { ImageReference } from "../../../specs/image-reference.ts";
import type { Registries, RegistryWay } from "../../../specs/registries.ts";
import { RegistryUnreachable, toFetchError } from "../../common/images/problems.ts";
import { runTool, type ToolNetwork, type ToolOptions } from "./run-tool.ts";

/** Port of the proxy in the network of skopeo. */
const proxyPort = 3128;

/**
 * Runs skopeo for an image and returns its output. What an image and its registry say decides which
 * addresses skopeo asks, and it ignores proxies for loopback addresses. So it has a network of its
 * own, where only the checked way exists. Throws SandboxSpecUnusable or StorageFull.
 */
export async function runSkopeo(
  argv: string[],
  image: ImageReference,
  registries: Registries,
  options: Omit<ToolOptions, "network">,
): Promise<Buffer> {
  if (image.source !== "registry") {
    const local = await runTool(argv, { ...options, network: { env: {}, listeners: new Map() } });
    if (local.ok) return local.stdout;
    throw toFetchError(image, local);
  }
  const way = registries.way(image.registry);
  const proxy = new ConnectProxy(way.dial);
  try {
    const result = await runTool(argv, { ...options, network: openWay(proxy, way) });
    if (result.ok) return result.stdout;
    // Go programs show the status line of a proxy as it is.
    const failure = proxy.failures.find(({ message }) => result.problem.includes(message));
    if (failure instanceof PlatformError && failure.code === "SandboxSpecUnusable") throw failure;
    if (failure) throw new RegistryUnreachable(image.registry, failure.message.replace(/\.$/, ""));
    throw toFetchError(image, result);
  } finally {
    proxy.close();
  }
}

function openWay(proxy: ConnectProxy, { loopbackPorts }: RegistryWay): ToolNetwork {
  const listeners = new Map<number, (connection: Duplex) => void>();
  for (const port of loopbackPorts) listeners.set(port, (connection) => proxy.relay(connection, port));
  listeners.set(proxyPort, (connection) => proxy.accept(connection));
  return { env: { HTTPS_PROXY: `http://127.0.0.1:${proxyPort}` }, listeners };
}
