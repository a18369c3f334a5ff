import type { CallOptions } from "../connection.ts";
import type { PageOf, PageQuery } from "../pages.ts";
import type {
  BashCleared,
  BashCommand,
  BashEvent,
  BashOutput,
  ExecuteBashRequest,
  Success,
} from "../types.ts";
import { Group } from "./group.ts";

const base = "/api/bash";

/** Commands in a sandbox and what they print. */
export class Commands extends Group {
  /** Runs a command and resolves at its end. There is no time-out but that of the command. */
  run(sandbox: string, request: ExecuteBashRequest, options?: CallOptions): Promise<BashOutput> {
    const query = { sandbox_id: sandbox };
    const unlimited = { timeoutMs: Number.POSITIVE_INFINITY, ...options, query };
    return this.connection.post(`${base}/execute_bash_command`, request, unlimited);
  }

  /** Starts a command in the background. */
  start(sandbox: string, request: ExecuteBashRequest, options?: CallOptions): Promise<BashCommand> {
    const query = { sandbox_id: sandbox };
    return this.connection.post(`${base}/start_bash_command`, request, { ...options, query });
  }

  stop(sandbox: string, command: string, options?: CallOptions): Promise<Success> {
    const address = `${base}/bash_commands/${encodeURIComponent(command)}/stop`;
    return this.connection.post(address, undefined, { ...options, query: { sandbox_id: sandbox } });
  }

  /** What commands printed, in pieces. */
  list(
    sandbox: string,
    query?: PageQuery & {
      kind__eq?: "BashCommand" | "BashOutput";
      command_id__eq?: string;
      timestamp__gte?: string;
      timestamp__lt?: string;
      order__gt?: number;
      sort_order?: "TIMESTAMP" | "TIMESTAMP_DESC";
    },
    options?: CallOptions,
  ): Promise<PageOf<BashEvent>> {
    return this.connection.get(`${base}/bash_events/search`, { ...query, sandbox_id: sandbox }, options);
  }

  /** Forgets what commands printed. */
  clear(sandbox: string, options?: CallOptions): Promise<BashCleared> {
    return this.connection.json("DELETE", `${base}/bash_events`, {
      ...options,
      query: { sandbox_id: sandbox },
    });
  }
}
