import type { SuggestedTask } from "@sandpiper/wire";
import type { Connection } from "../connection.ts";
import { orElse, unreadable } from "../or-else.ts";
import { mapConcurrently } from "../pages.ts";
import { toRepositoryPath } from "../repository-name.ts";
import * as forms from "./schemas.ts";

/** Pull requests to examine, last changed first; each takes up to three requests. */
const maxPulls = 15;

/** Open pull requests of a user with problems. Bitbucket has no list of assigned issues. */
export async function listTasks(
  connection: Connection,
  user: string,
  workspaces: readonly string[],
): Promise<SuggestedTask[]> {
  const lists = await mapConcurrently(workspaces, async (workspace) => {
    const path = `/workspaces/${encodeURIComponent(workspace)}/pullrequests/${encodeURIComponent(user)}`;
    const asked = connection.get(forms.BitbucketPulls, path, { state: "OPEN", pagelen: maxPulls });
    return (await orElse(asked, undefined, unreadable))?.value.values ?? [];
  });
  const pulls = lists.flat().sort((a, b) => (b.updated_on ?? "").localeCompare(a.updated_on ?? ""));
  const tasks = await mapConcurrently(pulls.slice(0, maxPulls), async (pull): Promise<SuggestedTask[]> => {
    const task_type = await orElse(findProblem(connection, pull), undefined, unreadable);
    const repo = pull.destination.repository.full_name;
    return task_type
      ? [{ git_provider: "bitbucket", task_type, repo, issue_number: pull.id, title: pull.title }]
      : [];
  });
  return tasks.flat();
}

/** The most urgent problem of a pull request. */
async function findProblem(
  connection: Connection,
  pull: forms.BitbucketPull,
): Promise<SuggestedTask["task_type"] | undefined> {
  const path = `/repositories/${toRepositoryPath(pull.destination.repository.full_name)}/pullrequests/${pull.id}`;
  const files = await connection.get(forms.BitbucketDiffstat, `${path}/diffstat`, { pagelen: 100 });
  if (files.value.values.some(({ status }) => status?.includes("conflict"))) return "MERGE_CONFLICTS";
  const statuses = await connection.get(forms.BitbucketStatuses, `${path}/statuses`, { pagelen: 100 });
  if (statuses.value.values.some(({ state }) => state === "FAILED")) return "FAILING_CHECKS";
  if ((pull.task_count ?? 0) > 0) return "UNRESOLVED_COMMENTS";
  const { value: comments } = await connection.get(forms.BitbucketComments, `${path}/comments`, {
    pagelen: 100,
  });
  const open = comments.values.some(
    ({ deleted, parent, inline, resolution }) => !deleted && !parent && inline && !resolution,
  );
  return open ? "UNRESOLVED_COMMENTS" : undefined;
}
