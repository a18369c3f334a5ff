import { finishTool } from "@sandpiper/agent/tools/finish";
import { terminalTool } from "@sandpiper/agent/tools/terminal";
import type { Tool, ToolContext } from "@sandpiper/agent/tools/tool";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { SecretMask } from "@sandpiper/core/secrets/mask";
import type { Model, ModelRequest, ModelResponse } from "@sandpiper/models/model";
import { type Event, emptyUsage, newId, textContent } from "@sandpiper/wire";
import pino from "pino";
import { CallbackSender } from "../../src/callbacks/sender.ts";
import { CallbackService } from "../../src/callbacks/service.ts";
import type { Conversations } from "../../src/conversations/api.ts";
import type { SandboxOwnership } from "../../src/conversations/custody.ts";
import { createConversations } from "../../src/conversations/wiring.ts";
import { SharedSlots } from "../../src/nodes/shared-slots.ts";
import type { RunOwner } from "../../src/store/event-log.ts";
import type { Store } from "../../src/store/store.ts";
import { StoredAcceptances } from "../../src/users/acceptances.ts";
import { DailyBudget } from "../../src/users/daily-budget.ts";
import { LentSecrets } from "../../src/users/lent-secrets.ts";
import { StoredSecrets } from "../../src/users/secrets.ts";
import { StoredSettings } from "../../src/users/settings/settings.ts";
import type { SandboxRecords } from "../support/test-sandboxes.ts";

/** The next answer of a model. */
export type Said = { call: string } | { text: string } | { finish: string };

/** The parts that all nodes of a test share. */
export class World {
  /** Commands that have begun, as `<command> on <node>`. */
  readonly commands: string[] = [];
  /** Model calls that have begun. */
  readonly calls: string[] = [];
  /** Promises that delay the ends of commands, by command; a command without one ends at once. */
  readonly holds = new Map<string, PromiseWithResolvers<void>>();
  /** Returns the answer of the model to the last words of a conversation. */
  answer: (last: string, request: ModelRequest) => Said | Promise<Said> = () => ({ finish: "done" });

  hold(command: string): PromiseWithResolvers<void> {
    const held = Promise.withResolvers<void>();
    this.holds.set(command, held);
    return held;
  }
}

/** A node without HTTP: its own store on the shared database, and its own services. */
export class TestNode implements SandboxOwnership {
  readonly incarnation: string;
  readonly owned = new Map<string, number>();
  readonly store: Store;
  readonly conversations: Conversations;
  readonly callbacks: CallbackService;
  readonly #slots: SharedSlots;
  readonly #outbound = createOutbound({ allowPrivate: ["127.0.0.1/32"] });

  constructor(
    store: Store,
    parts: { name: string; world: World; sandboxes: SandboxRecords; maxRuns?: number },
  ) {
    const { name, world, sandboxes, maxRuns = 0 } = parts;
    this.incarnation = name;
    this.store = store;
    const logger = pino({ level: process.env.NODE_LOGS ? "debug" : "silent" });
    const node = () => name;
    this.#slots = new SharedSlots({ slots: store.slots!, kind: "run", max: maxRuns, node, logger });
    const mask = new SecretMask();
    const secrets = new StoredSecrets({
      users: store.userSecrets,
      conversations: store.conversationSecrets,
      mask,
    });
    const settings = new StoredSettings(store.settings, {});
    const publicUrl = () => "http://127.0.0.1:1";
    this.callbacks = new CallbackService({
      store,
      sender: new CallbackSender({ outbound: this.#outbound, registerSecret: () => {} }),
      logger,
      batchDelayMs: 5,
      places: {
        findSandbox: async (id) => (await store.conversations.get(id))?.sandboxId,
        owns: (id) => this.ownerOf(id) !== undefined,
      },
    });
    this.conversations = createConversations({
      ...{ store, sandboxes, settings, secrets, mask, logger, publicUrl },
      scheduler: new EventLoopScheduler(),
      callbacks: this.callbacks,
      outbound: this.#outbound,
      lentSecrets: new LentSecrets(),
      acceptances: new StoredAcceptances({ store: store.behaviours, publicUrl }),
      toolsFor: () => [finishTool as unknown as Tool, heldTerminal(name, world)],
      openModel: () => scriptedModel(name, world),
      limits: { maxRuns, slots: this.#slots, dailyBudget: new DailyBudget(store.spending, 0) },
      ownership: this,
    });
  }

  async open(): Promise<void> {
    await this.callbacks.open();
  }

  ownerOf(sandboxId: string): RunOwner | undefined {
    const epoch = this.owned.get(sandboxId);
    return epoch === undefined ? undefined : { node: this.incarnation, epoch };
  }

  async close(): Promise<void> {
    await this.conversations.close(0);
    await this.callbacks.close();
    this.#slots.close();
    await this.#outbound.close();
    await this.store.close();
  }
}

function heldTerminal(name: string, world: World): Tool {
  const tool = terminalTool as unknown as Tool;
  return {
    ...tool,
    resources: () => [],
    async run(action, { signal, isRepeated }: ToolContext) {
      const { command } = action as unknown as { command: string };
      world.commands.push(`${command}${isRepeated ? " goes on" : ""} on ${name}`);
      const aborted = Promise.withResolvers<never>();
      aborted.promise.catch(() => {});
      signal.addEventListener("abort", () => aborted.reject(signal.reason), { once: true });
      await Promise.race([world.holds.get(command)?.promise, aborted.promise]);
      return {
        kind: "TerminalObservation",
        content: [textContent(`${command} is done`)],
        is_error: false,
        command,
        exit_code: 0,
        timeout: false,
        metadata: {},
      } as never;
    },
  };
}

function scriptedModel(name: string, world: World): Model {
  return {
    name: "test/model",
    contextWindow: 100_000,
    async complete(request: ModelRequest): Promise<ModelResponse> {
      const last = JSON.stringify(request.messages.at(-1));
      world.calls.push(`${last} on ${name}`);
      const aborted = Promise.withResolvers<never>();
      aborted.promise.catch(() => {});
      request.signal.addEventListener("abort", () => aborted.reject(request.signal.reason), { once: true });
      const said = await Promise.race([world.answer(last, request), aborted.promise]);
      const call =
        "call" in said
          ? { name: "terminal", arguments: JSON.stringify({ command: said.call, security_risk: "LOW" }) }
          : "finish" in said
            ? { name: "finish", arguments: JSON.stringify({ message: said.finish }) }
            : undefined;
      return {
        id: newId(),
        text: "text" in said ? said.text : "",
        thinkingBlocks: [],
        toolCalls: call ? [{ id: newId(), ...call }] : [],
        usage: emptyUsage(),
        cost: 0,
        finishReason: "stop",
      } as unknown as ModelResponse;
    },
  };
}

/** Reads the events of a conversation's whole log, the unlisted ones included. */
export async function readLog(store: Store, id: string): Promise<Event[]> {
  const records = await store.events.read(id, 0, 10_000);
  return records.map(({ event }) => event);
}
