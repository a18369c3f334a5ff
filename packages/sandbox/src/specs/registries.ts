import type { Socket } from "node:net";
import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { Destination } from "@sandpiper/core/outbound/dial";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import type { SandboxSpec } from "../driver.ts";
import { parseImageReference } from "./image-reference.ts";

export interface RegistriesOptions {
  /** The server's checked way; by default one that reaches public addresses only. */
  outbound?: Pick<Outbound, "connect">;
  /**
   * Registries of users' images: `docker.io`, `registry.example.com:5000`, `*.example.com`;
   * undefined: all that are public.
   */
  allowed?: readonly string[] | undefined;
  /** The operator's specs; the registries of their images count as named. */
  specs?: readonly Pick<SandboxSpec, "root">[];
}

/** How a program that fetches an image reaches the network. */
export interface RegistryWay {
  /** Connects to a destination. Throws PlatformError with a sentence for the program's user. */
  dial(destination: Destination): Promise<Socket>;
  /** Ports of this machine's loopback address that it may reach. */
  loopbackPorts: number[];
}

/** The engine's own default, which users of the docker driver may ask without being named. */
const engineDefault = "docker.io";

/** Which registries images come from, and how they are reached. */
export class Registries {
  readonly #outbound: Pick<Outbound, "connect">;
  readonly #allowed: readonly string[] | undefined;
  /** What the operator wrote: these may have private addresses. */
  readonly #named: readonly string[];

  constructor({ outbound, allowed, specs = [] }: RegistriesOptions = {}) {
    this.#outbound = outbound ?? createOutbound({ allowPrivate: [] });
    this.#allowed = allowed?.map(normalise);
    this.#named = [...(this.#allowed ?? []), ...specs.flatMap(registryOf)];
  }

  /** Throws SandboxSpecUnusable when users may not choose images of a registry. */
  checkUser(registry: string): void {
    if (this.#allowed && !this.#isNamed(registry))
      throw new PlatformError("RegistryNotAllowed", { registry, allowed: this.#allowed.join(", ") });
  }

  /** Throws SandboxSpecUnusable when an engine, which cannot be checked, may not ask a registry. */
  checkEngine(registry: string): void {
    const isDefault = !this.#allowed && registry === engineDefault;
    if (!isDefault && !this.#isNamed(registry))
      throw new PlatformError("EngineRegistryUnchecked", { registry });
  }

  /**
   * The way to a registry and to what it refers to (token services, storage). Private addresses are
   * reached only for a named registry, and there only those of named hosts and of the ranges of
   * SANDPIPER_OUTBOUND_PRIVATE. Throws SandboxSpecUnusable.
   */
  way(registry: string): RegistryWay {
    const isNamed = this.#isNamed(registry);
    if (isLoopback(registry) && !isNamed)
      throw new PlatformError("RegistryAddressPrivate", { host: registry });
    return {
      dial: async (destination) => {
        const { host, port } = destination;
        const trusted = isNamed && this.#isNamed(port === 443 ? host : `${host}:${port}`);
        return this.#outbound.connect(destination, { trusted }).catch((error: unknown) => {
          if (error instanceof PlatformError && error.code === "OutboundRefused")
            throw new PlatformError("RegistryAddressPrivate", { host });
          throw error;
        });
      },
      loopbackPorts: isLoopback(registry) ? this.#named.filter(isLoopback).map(portOf) : [],
    };
  }

  #isNamed(registry: string): boolean {
    const name = normalise(registry);
    return this.#named.some((one) => (one.startsWith("*.") ? name.endsWith(one.slice(1)) : name === one));
  }
}

/** True for a registry on this machine, which may speak plain HTTP. */
export function isLoopback(registry: string): boolean {
  return /^(localhost|127\.0\.0\.1)(:\d+)?$/.test(registry);
}

function registryOf({ root }: Pick<SandboxSpec, "root">): string[] {
  if (root.kind !== "image" || /^sha256:[0-9a-f]{64}$/.test(root.reference)) return [];
  const image = parseImageReference(root.reference);
  return image.source === "registry" ? [normalise(image.registry)] : [];
}

function normalise(registry: string): string {
  return registry.toLowerCase().replace(/:443$/, "");
}

function portOf(registry: string): number {
  return Number(/:(\d+)$/.exec(registry)?.[1] ?? 443);
}
