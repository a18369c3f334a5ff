import { type CallOptions, path } from "../connection.ts";
import type {
  AppSendMessageRequest,
  AppSendMessageResponse,
  AskAgentResponse,
  ConfirmationResponse,
  ConversationInfo,
  GenerateTitleRequest,
  GenerateTitleResponse,
  GoalRequest,
  PendingMessageRequest,
  PendingMessageResponse,
  SendMessageRequest,
  SetConfirmationPolicyRequest,
  SetSecurityAnalyzerRequest,
  Success,
  SwitchLlmRequest,
  UpdateSecretsRequest,
} from "../types.ts";
import { Group } from "./group.ts";

/** What steers the agent of a conversation. */
export class Runs extends Group {
  /** Sends a message; the agent runs unless `run` is false. A text is a message of one part. */
  send(
    id: string,
    message: string | AppSendMessageRequest,
    options?: CallOptions,
  ): Promise<AppSendMessageResponse> {
    const request = typeof message === "string" ? { content: [{ type: "text", text: message }] } : message;
    return this.connection.post(path`/api/v1/app-conversations/${id}/send-message`, request, options);
  }

  /** Adds a message to the log; the agent runs only with `run`. */
  add(id: string, message: SendMessageRequest, options?: CallOptions): Promise<Success> {
    return this.connection.post(path`/api/conversations/${id}/events`, message, options);
  }

  /** Queues a message for a conversation that is still starting; `id` may be that of its start. */
  queue(id: string, message: PendingMessageRequest, options?: CallOptions): Promise<PendingMessageResponse> {
    return this.connection.post(path`/api/v1/conversations/${id}/pending-messages`, message, options);
  }

  /** Starts a run, or approves the waiting actions. */
  run(id: string, options?: CallOptions): Promise<Success> {
    return this.#post(path`/api/conversations/${id}/run`, options);
  }

  /** Ends the run after the current step. */
  pause(id: string, options?: CallOptions): Promise<Success> {
    return this.#post(path`/api/conversations/${id}/pause`, options);
  }

  /** Ends the model call and the tools at once. */
  interrupt(id: string, options?: CallOptions): Promise<Success> {
    return this.#post(path`/api/conversations/${id}/interrupt`, options);
  }

  /** Approves or rejects the actions that wait for confirmation. */
  respond(id: string, response: ConfirmationResponse, options?: CallOptions): Promise<Success> {
    return this.connection.post(
      path`/api/conversations/${id}/events/respond_to_confirmation`,
      response,
      options,
    );
  }

  /** Moves the head to an event, or before all events; the next message follows it. */
  navigate(id: string, eventId: string | null, options?: CallOptions): Promise<ConversationInfo> {
    return this.connection.post(path`/api/conversations/${id}/navigate`, { event_id: eventId }, options);
  }

  /** Asks the model about the conversation, outside of its run. */
  ask(id: string, question: string, options?: CallOptions): Promise<AskAgentResponse> {
    return this.connection.post(path`/api/conversations/${id}/ask_agent`, { question }, options);
  }

  /** The text of the agent's last answer; empty when there is none. */
  finalResponse(id: string, options?: CallOptions): Promise<AskAgentResponse> {
    return this.connection.get(path`/api/conversations/${id}/agent_final_response`, {}, options);
  }

  generateTitle(
    id: string,
    request: GenerateTitleRequest = {},
    options?: CallOptions,
  ): Promise<GenerateTitleResponse> {
    return this.connection.post(path`/api/conversations/${id}/generate_title`, request, options);
  }

  /** Replaces the middle of the history by a summary. */
  condense(id: string, options?: CallOptions): Promise<Success> {
    return this.#post(path`/api/conversations/${id}/condense`, options);
  }

  /** Runs until a judge model finds the objective reached. */
  setGoal(id: string, goal: GoalRequest, options?: CallOptions): Promise<Success> {
    return this.connection.post(path`/api/conversations/${id}/goal`, goal, options);
  }

  stopGoal(id: string, options?: CallOptions): Promise<Success> {
    return this.#post(path`/api/conversations/${id}/goal/stop`, options);
  }

  resumeGoal(id: string, options?: CallOptions): Promise<Success> {
    return this.#post(path`/api/conversations/${id}/goal/resume`, options);
  }

  /** Uses a model from the next call on. */
  switchModel(id: string, request: SwitchLlmRequest, options?: CallOptions): Promise<Success> {
    return this.connection.post(path`/api/conversations/${id}/switch_llm`, request, options);
  }

  /** Uses a stored LLM profile from the next call on. */
  switchProfile(id: string, name: string, options?: CallOptions): Promise<Success> {
    const request = { profile_name: name };
    return this.connection.post(path`/api/v1/app-conversations/${id}/switch_profile`, request, options);
  }

  /** Sets when the agent must ask before it acts. */
  setConfirmationPolicy(
    id: string,
    request: SetConfirmationPolicyRequest,
    options?: CallOptions,
  ): Promise<Success> {
    return this.connection.post(path`/api/conversations/${id}/confirmation_policy`, request, options);
  }

  /** Sets what estimates the risk of actions. */
  setSecurityAnalyzer(
    id: string,
    request: SetSecurityAnalyzerRequest,
    options?: CallOptions,
  ): Promise<Success> {
    return this.connection.post(path`/api/conversations/${id}/security_analyzer`, request, options);
  }

  addSecrets(id: string, request: UpdateSecretsRequest, options?: CallOptions): Promise<Success> {
    return this.connection.post(path`/api/conversations/${id}/secrets`, request, options);
  }

  loadPlugin(id: string, pluginRef: string, options?: CallOptions): Promise<Success> {
    const request = { plugin_ref: pluginRef };
    return this.connection.post(path`/api/conversations/${id}/load_plugin`, request, options);
  }

  #post(address: string, options: CallOptions | undefined): Promise<Success> {
    return this.connection.post(address, undefined, options);
  }
}
