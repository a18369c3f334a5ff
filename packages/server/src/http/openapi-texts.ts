const texts: Record<string, string> = {
  conversation_id: "id of the conversation: 32 hex digits, or a UUID with dashes",
  conversation_id__eq: "id of the conversation: 32 hex digits, or a UUID with dashes",
  sandbox_id: "id of the sandbox",
  sandbox_id__eq: "only those in this sandbox",
  sandbox_spec_id: "the spec of the sandbox; without it the user's or the server's default",
  snapshot_id: "id of the snapshot",
  event_id: "id of the event",
  id: "ids, the key repeated for each",
  ids: "ids, the key repeated for each",
  limit: "most items of the page",
  page_id: "next_page_id of the page before",
  sort_order: "the order of the list",
  title__contains: "text in the title, without regard to case; % and _ are wildcards",
  include_sub_conversations: "also those that have a parent",
  kind__eq: "only events of this kind",
  source: "only events of this source",
  created_at__gte: "created at or after this time: ISO-8601, UTC where it names no zone",
  created_at__lt: "created before this time: ISO-8601, UTC where it names no zone",
  updated_at__gte: "changed at or after this time: ISO-8601, UTC where it names no zone",
  updated_at__lt: "changed before this time: ISO-8601, UTC where it names no zone",
  timestamp__gte: "at or after this time: ISO-8601, UTC where it names no zone",
  timestamp__lt: "before this time: ISO-8601, UTC where it names no zone",
  name: "the name",
  secret_name: "name of the secret",
  secret_id: "name of the secret",
  profile_id: "id or name of the profile",
  provider: "the git provider",
  repository: "`owner/name`",
  repository_name: "`owner/name`",
  query: "text to search for",
  path: "path of the file or folder",
  file_path: "path of the file",
  exclude: "names that are left out, the key repeated for each",
  gzip: "compress the answer",
  port: "port inside of the sandbox",
};

/** What a parameter means that has the same meaning wherever it stands and whose schema says nothing itself. */
export function parameterText(name: string, kind: "path" | "query" | "header"): string | undefined {
  if (kind === "path" && name === "id") return "the id";
  return texts[name];
}
