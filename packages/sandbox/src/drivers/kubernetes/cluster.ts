import {
  ApiException,
  AuthorizationV1Api,
  CoreV1Api,
  CustomObjectsApi,
  KubeConfig,
  NetworkingV1Api,
  type RequestContext,
  StorageV1Api,
} from "@kubernetes/client-node";
import { errorText, PlatformError } from "@sandpiper/core/errors";

export interface ClusterOptions {
  /**
   * Path of a kubeconfig; undefined: KUBECONFIG, else ~/.kube/config, else the service account of
   * the pod that the server runs in.
   */
  kubeconfig?: string | undefined;
  /** Namespace; undefined: that of the kubeconfig or of the server's pod, else `default`. */
  namespace?: string | undefined;
}

/** Handlers of the API server's refusals by HTTP status. */
export type RefusalHandlers<T> = Record<number, (message: string) => T>;

/** HTTP statuses of an API server, or of a proxy in front of it, that cannot serve now. */
const unavailableStatuses = [500, 502, 503, 504];

/** Reuses the connections of the first request, because the library opens new ones each time. */
class PooledConfig extends KubeConfig {
  #dispatcher: ReturnType<RequestContext["getDispatcher"]>;

  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    await super.applySecurityAuthentication(context);
    this.#dispatcher ??= context.getDispatcher();
    if (this.#dispatcher) context.setDispatcher(this.#dispatcher);
  }
}

/** One namespace of a Kubernetes cluster behind its API server. */
export class Cluster {
  readonly config: KubeConfig;
  readonly namespace: string;
  /** Address of the API server, for error messages. */
  readonly address: string;
  readonly core: CoreV1Api;
  readonly networking: NetworkingV1Api;
  readonly storage: StorageV1Api;
  /** Objects of types that are not part of Kubernetes. */
  readonly objects: CustomObjectsApi;
  readonly authorization: AuthorizationV1Api;

  /** Throws SandboxFailed when there is no usable kubeconfig. */
  constructor({ kubeconfig, namespace }: ClusterOptions) {
    this.config = new PooledConfig();
    try {
      if (kubeconfig === undefined) this.config.loadFromDefault();
      else this.config.loadFromFile(kubeconfig);
    } catch (cause) {
      // The parser's message may quote keys of the file.
      const reason = (cause as NodeJS.ErrnoException).code ?? "it is not a kubeconfig";
      throw new PlatformError(
        "ClusterConfigUnreadable",
        { path: kubeconfig ?? "KUBECONFIG", reason },
        { cause },
      );
    }
    this.address = this.config.getCurrentCluster()?.server ?? "";
    if (this.address === "") throw new PlatformError("ClusterUnknown");
    const { currentContext } = this.config;
    this.namespace = namespace ?? this.config.getContextObject(currentContext)?.namespace ?? "default";
    this.core = this.config.makeApiClient(CoreV1Api);
    this.networking = this.config.makeApiClient(NetworkingV1Api);
    this.storage = this.config.makeApiClient(StorageV1Api);
    this.objects = this.config.makeApiClient(CustomObjectsApi);
    this.authorization = this.config.makeApiClient(AuthorizationV1Api);
  }

  /**
   * Makes a request. `action` follows "may not" and "could not" in messages; `handlers` turn
   * refusals into results or errors. Throws SandboxFailed when the API server cannot be reached or
   * refuses.
   */
  async request<T, A = never>(
    action: string,
    work: () => Promise<T>,
    handlers: RefusalHandlers<A> = {},
  ): Promise<T | A> {
    try {
      return await work();
    } catch (cause) {
      if (cause instanceof PlatformError) throw cause;
      if (!(cause instanceof ApiException)) throw this.unreachable(cause);
      const message = readMessage(cause);
      const handle = handlers[cause.code];
      if (handle) return handle(message);
      throw this.#refused(action, cause.code, message, cause);
    }
  }

  unreachable(cause: unknown): PlatformError {
    const inner = (cause as { cause?: unknown }).cause ?? cause;
    const reason = (inner as NodeJS.ErrnoException).code ?? errorText(inner);
    return new PlatformError("ClusterUnreachable", { address: this.address, reason }, { cause });
  }

  #refused(action: string, status: number, reason: string, cause: unknown): PlatformError {
    if (/exceeded quota/.test(reason)) return new PlatformError("ClusterQuotaFull", { reason }, { cause });
    if (status === 401) return new PlatformError("ClusterUnauthorized", { address: this.address }, { cause });
    if (status === 403) return new PlatformError("ClusterForbidden", { action, reason }, { cause });
    if (unavailableStatuses.includes(status))
      return new PlatformError("ClusterUnreachable", { address: this.address, reason }, { cause });
    return new PlatformError("ClusterRefused", { action, reason }, { cause });
  }
}

/** Returns the message of the `Status` object with which an API server answers. */
function readMessage(error: ApiException<unknown>): string {
  try {
    const body: unknown = typeof error.body === "string" ? JSON.parse(error.body) : error.body;
    const { message } = body as { message?: unknown };
    if (typeof message === "string") return message.trim().replace(/\.$/, "").slice(0, 500);
  } catch {
    // The answer is no JSON, so a proxy in front of the API server has written it.
  }
  return `HTTP status ${error.code}`;
}
