import { SettingsUpdate, SettingsView } from "./settings.ts";
import { SettingsV1, UserInfo } from "./settings-v1.ts";

/**
 * Names that released clients send with settings and that change nothing here: what they read and
 * send back, and fields of later and earlier releases (legacy-gui.md section 3.1, app-server.md
 * section 5, openapi/agent-server-1.58.json). Settings of other names are refused.
 */
export const ignoredSettings: ReadonlySet<string> = new Set([
  ...[SettingsUpdate, SettingsView, SettingsV1, UserInfo].flatMap(({ properties }) =>
    Object.keys(properties),
  ),
  // The V0 GUI merges this into the settings that it sends back.
  "is_new_user",
  "active_meta_profile",
]);

/** The same for fields inside of `agent_settings_diff` and `conversation_settings_diff`. */
export const ignoredNestedSettings: ReadonlySet<string> = new Set([
  "kind",
  "acp_args",
  "acp_command",
  "acp_env",
  "acp_file_secrets",
  "acp_isolate_data_dir",
  "acp_model",
  "acp_prompt_timeout",
  "acp_server",
  "acp_session_mode",
  "acp_startup_timeout",
  "is_subscription",
  "provider_connection_id",
  "safety_settings",
  "stream_idle_timeout",
]);
