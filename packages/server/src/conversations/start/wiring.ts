import type { Logger } from "@sandpiper/core/log/logger";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { OpenModel } from "@sandpiper/models/model";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { newId, parseId, type StartChildRequest } from "@sandpiper/wire";
import type { Callbacks } from "../../callbacks/api.ts";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { SandboxScope } from "../../store/sandbox-scope.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets, Settings } from "../../users/api.ts";
import type { ClientSecrets } from "../agent/client-secrets.ts";
import type { OutputMasks, OutputMasksDeps } from "../agent/output-masks.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { ConversationBranches, ConversationCommands, ConversationStarts } from "../api.ts";
import type { PendingMessages } from "../commands/pending.ts";
import type { Custody } from "../custody.ts";
import type { ProjectBehaviours } from "../project/behaviours.ts";
import type { PluginFetcher } from "../project/plugin-parts.ts";
import type { Announcements } from "../run/announcements.ts";
import type { Runner } from "../run/runner.ts";
import type { Workspaces } from "../run/workspaces.ts";
import type { SandboxJoins } from "../sandbox-joins.ts";
import { presentStartTask } from "../views/present.ts";
import { startTaskReads } from "../views/reads.ts";
import { startChild } from "./child.ts";
import { ConversationCreator } from "./create.ts";
import { CreationPlans } from "./creation-plans.ts";
import { type ForkDeps, forkConversation } from "./fork.ts";
import { SandboxGroups } from "./sandbox-groups.ts";
import { ConversationStarter } from "./start.ts";
import { StartFailures } from "./start-failures.ts";
import { StartMessages, type StartMessagesDeps } from "./start-messages.ts";
import { StartPlans } from "./start-plans.ts";
import { StartPreparation } from "./start-preparation.ts";
import { StartProjects } from "./start-projects.ts";
import { StartRecords } from "./start-records.ts";
import { StartSandboxes } from "./start-sandboxes.ts";
import { StartSteps } from "./start-steps.ts";
import { TaskFeed } from "./task-feed.ts";

export interface StartsDeps {
  store: Store;
  callbacks: Callbacks;
  sandboxes: Sandboxes;
  joins: SandboxJoins;
  settings: Settings;
  secrets: Secrets;
  clientSecrets: ClientSecrets;
  plugins: PluginFetcher;
  mask: OutputMasksDeps["mask"];
  masks: OutputMasks;
  openModel: OpenModel;
  knowledge: ProjectKnowledge;
  behaviours: ProjectBehaviours;
  runner: Runner;
  workspaces: Workspaces;
  announcements: Announcements;
  commands: ConversationCommands;
  pending: PendingMessages;
  waitsForTools: StartMessagesDeps["waitsForTools"];
  replacements: ForkDeps["replacements"];
  publicUrl: () => string;
  custody: Custody;
  logger: Logger;
}

export interface StartServices {
  starts: ConversationStarts;
  fork(
    source: ConversationRow,
    request: Parameters<ConversationBranches["fork"]>[1],
  ): ReturnType<ConversationBranches["fork"]>;
  startChild(
    parent: ConversationRow,
    request: StartChildRequest,
  ): ReturnType<ConversationBranches["startChild"]>;
  /** Resumes the open starts that an earlier process has left. */
  recover(scope: SandboxScope): Promise<void>;
  /** Resumes starts that this node owns, and those that it takes from nodes that have ended. */
  adoptLeft(): Promise<void>;
  /** Ends the followers of starts in sandboxes that go to another node. */
  leave(sandboxIds: ReadonlySet<string>): void;
  close(): Promise<void>;
}

/** The ways in which conversations begin. */
export function createStarts(deps: StartsDeps): StartServices {
  const { store, callbacks, sandboxes, joins, settings, secrets, clientSecrets, plugins, mask, masks } = deps;
  const { openModel, knowledge, behaviours, runner, workspaces, announcements, commands, pending } = deps;
  const { waitsForTools, replacements, publicUrl, custody, logger } = deps;
  /** Creations with an id of the client. */
  const creations = new KeyedMutex();

  const tasks = new TaskFeed(store.startTasks, () => custody.incarnation);
  const messages = new StartMessages({ store, settings, openModel, commands, pending, waitsForTools });
  const failures = new StartFailures({ store, sandboxes, joins, runner, announcements });
  const places = new StartSandboxes({ sandboxes, workspaces, tasks });
  const projects = new StartProjects({ store, settings, knowledge, behaviours, tasks });
  const preparation = new StartPreparation({
    sandboxes: places,
    projects,
    messages,
    failures,
    tasks,
  });
  const groups = new SandboxGroups({ store, sandboxes, joins, settings, secrets });
  const starter = new ConversationStarter({
    plans: new StartPlans({ store, sandboxes, groups, settings, secrets, mask }),
    records: new StartRecords({ store, callbacks, secrets }),
    steps: new StartSteps({ store, tasks, sandboxes: places, preparation, messages, failures }),
    tasks,
    custody,
    logger,
  });

  const plans = new CreationPlans({ store, settings, sandboxes, secrets: clientSecrets, masks, plugins });
  const creator = new ConversationCreator({
    store,
    callbacks,
    sandboxes,
    secrets: clientSecrets,
    plans,
    pending,
  });

  return {
    starts: {
      findShared: (userId, request, where) => groups.find(userId, request, where),
      async start(userId, request) {
        return presentStartTask(await starter.start(userId, request), publicUrl());
      },
      async startStream(userId, request) {
        const rows = await starter.follow(userId, request);
        return (async function* () {
          for await (const row of rows) yield presentStartTask(row, publicUrl());
        })();
      },
      create: (target, request, trace) =>
        // A retry with the same id returns the conversation that the first attempt created.
        creations.run(parseId(request.conversation_id ?? "") ?? newId(), () =>
          joins.run(target, () => creator.create(target, request, trace)),
        ),
      tasks: startTaskReads(store.startTasks, publicUrl),
    },
    fork: (source, request) =>
      creations.run(parseId(request.id ?? "") ?? newId(), () =>
        forkConversation({ store, sandboxes, joins, replacements, secrets, callbacks }, source, request),
      ),
    startChild: (parent, request) =>
      joins.run(parent, () =>
        startChild({ store, sandboxes, secrets, callbacks, masks, pending }, parent, request),
      ),
    recover: (scope) => starter.recover(scope),
    adoptLeft: () => starter.adoptLeft(),
    leave: (sandboxIds) => starter.leave(sandboxIds),
    close: () => starter.close(),
  };
}
