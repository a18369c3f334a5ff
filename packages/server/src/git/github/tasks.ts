import type { SuggestedTask } from "@sandpiper/wire";
import type { Static } from "typebox";
import type { GithubPull, GithubTasks } from "./schemas.ts";

/** Open pull requests of the user with possible problems, and assigned open issues. */
export const tasksQuery = `query SuggestedTasks($issues: String!) {
  viewer {
    pullRequests(first: 50, states: [OPEN], orderBy: { field: UPDATED_AT, direction: DESC }) {
      nodes {
        number
        title
        repository { nameWithOwner }
        mergeable
        reviewDecision
        commits(last: 1) { nodes { commit { statusCheckRollup { state } } } }
        reviewThreads(first: 50) { nodes { isResolved } }
      }
    }
  }
  search(type: ISSUE, first: 50, query: $issues) {
    nodes { ... on Issue { number title repository { nameWithOwner } } }
  }
}`;

/** Converts the response to tasks, pull requests with problems first. */
export function toTasks({ viewer, search }: Static<typeof GithubTasks>): SuggestedTask[] {
  const pulls = viewer.pullRequests.nodes.flatMap((pull) => {
    const task_type = pull && findProblem(pull);
    if (!task_type) return [];
    return [
      {
        git_provider: "github" as const,
        task_type,
        repo: pull.repository.nameWithOwner,
        issue_number: pull.number,
        title: pull.title,
      },
    ];
  });
  const issues = search.nodes.flatMap((issue) => {
    if (issue?.number === undefined || issue.title === undefined || !issue.repository) return [];
    const { number, title, repository } = issue;
    return [
      {
        git_provider: "github" as const,
        task_type: "OPEN_ISSUE" as const,
        repo: repository.nameWithOwner,
        issue_number: number,
        title,
      },
    ];
  });
  return [...pulls, ...issues];
}

/** The most urgent problem. */
function findProblem(pull: Static<typeof GithubPull>): SuggestedTask["task_type"] | undefined {
  if (pull.mergeable === "CONFLICTING") return "MERGE_CONFLICTS";
  const checks = pull.commits.nodes[0]?.commit.statusCheckRollup?.state;
  if (checks === "FAILURE" || checks === "ERROR") return "FAILING_CHECKS";
  const unresolved = pull.reviewThreads.nodes.some((thread) => thread?.isResolved === false);
  return unresolved || pull.reviewDecision === "CHANGES_REQUESTED" ? "UNRESOLVED_COMMENTS" : undefined;
}
