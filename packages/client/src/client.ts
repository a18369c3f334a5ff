import { Connection, type ConnectionOptions } from "./connection.ts";
import { type Followed, type FollowOptions, follow } from "./follow/follow.ts";
import { Account, Behaviours, Keys } from "./groups/account.ts";
import { AgentProfiles } from "./groups/agent-profiles.ts";
import { Callbacks } from "./groups/callbacks.ts";
import { Commands } from "./groups/commands.ts";
import { Conversations } from "./groups/conversations.ts";
import { Events } from "./groups/events.ts";
import { Files } from "./groups/files.ts";
import { Git } from "./groups/git.ts";
import { Project } from "./groups/project.ts";
import { Runs } from "./groups/runs.ts";
import { Sandboxes } from "./groups/sandboxes.ts";
import { Secrets } from "./groups/secrets.ts";
import { Server } from "./groups/server.ts";
import { Profiles, Settings } from "./groups/settings.ts";
import { Snapshots, Specs } from "./groups/templates.ts";

/**
 * A client of a Sandpiper server. All methods reject with `RequestError`, or with the reason of a
 * signal. A program that uses only some groups, and should be small, makes them itself:
 * `new Events(new Connection({ url }))`.
 */
export class Client {
  readonly connection: Connection;
  readonly account: Account;
  readonly agentProfiles: AgentProfiles;
  readonly behaviours: Behaviours;
  readonly callbacks: Callbacks;
  readonly commands: Commands;
  readonly conversations: Conversations;
  readonly events: Events;
  readonly files: Files;
  readonly git: Git;
  readonly keys: Keys;
  readonly profiles: Profiles;
  readonly project: Project;
  readonly runs: Runs;
  readonly sandboxes: Sandboxes;
  readonly secrets: Secrets;
  readonly server: Server;
  readonly settings: Settings;
  readonly snapshots: Snapshots;
  readonly specs: Specs;

  constructor(options: ConnectionOptions) {
    const connection = new Connection(options);
    this.connection = connection;
    this.account = new Account(connection);
    this.agentProfiles = new AgentProfiles(connection);
    this.behaviours = new Behaviours(connection);
    this.callbacks = new Callbacks(connection);
    this.commands = new Commands(connection);
    this.conversations = new Conversations(connection);
    this.events = new Events(connection);
    this.files = new Files(connection);
    this.git = new Git(connection);
    this.keys = new Keys(connection);
    this.profiles = new Profiles(connection);
    this.project = new Project(connection);
    this.runs = new Runs(connection);
    this.sandboxes = new Sandboxes(connection);
    this.secrets = new Secrets(connection);
    this.server = new Server(connection);
    this.settings = new Settings(connection);
    this.snapshots = new Snapshots(connection);
    this.specs = new Specs(connection);
  }

  /** Follows a conversation: stored events from a number on, and then live ones. */
  follow(conversation: string, options?: FollowOptions): AsyncGenerator<Followed, never> {
    return follow(this.connection, conversation, options);
  }
}
