import type { SuggestedTask } from "@sandpiper/wire";
import type { Static } from "typebox";
import type { GitlabIssues, GitlabMergeRequest, GitlabTasks } from "./schemas.ts";

/** Open merge requests of the user with possible problems. */
export const tasksQuery = `query SuggestedTasks {
  currentUser {
    authoredMergeRequests(state: opened, sort: UPDATED_DESC, first: 50) {
      nodes {
        iid
        title
        conflicts
        project { fullPath }
        headPipeline { status }
        resolvableDiscussionsCount
        resolvedDiscussionsCount
      }
    }
  }
}`;

/** Converts the responses to tasks, merge requests with problems first. */
export function toTasks(
  { currentUser }: Static<typeof GitlabTasks>,
  issues: Static<typeof GitlabIssues>,
): SuggestedTask[] {
  const requests = (currentUser?.authoredMergeRequests?.nodes ?? []).flatMap((request): SuggestedTask[] => {
    const task_type = findProblem(request);
    if (!task_type) return [];
    const { title, project } = request;
    return [
      { git_provider: "gitlab", task_type, repo: project.fullPath, issue_number: Number(request.iid), title },
    ];
  });
  const assigned = issues.map(({ iid, title, references }): SuggestedTask => {
    const repo = references.full.replace(/#\d+$/, "");
    return { git_provider: "gitlab", task_type: "OPEN_ISSUE", repo, issue_number: iid, title };
  });
  return [...requests, ...assigned];
}

/** The most urgent problem. */
function findProblem(request: Static<typeof GitlabMergeRequest>): SuggestedTask["task_type"] | undefined {
  if (request.conflicts) return "MERGE_CONFLICTS";
  if (request.headPipeline?.status === "FAILED") return "FAILING_CHECKS";
  const open = (request.resolvableDiscussionsCount ?? 0) - (request.resolvedDiscussionsCount ?? 0);
  return open > 0 ? "UNRESOLVED_COMMENTS" : undefined;
}
