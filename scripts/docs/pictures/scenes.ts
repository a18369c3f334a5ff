/** A picture: a command on a terminal, what a user types, and the part that is shown. */
export interface Scene {
  name: string;
  /** Bash before the command, not shown. */
  prepare: string;
  /** Shown behind the prompt. */
  command: string;
  columns: number;
  /** Texts that the command shows, in their order, and what the user types then. */
  answers?: { shown: RegExp; type: string }[];
  /** Rows at the start and at the end that stay; the rows between are replaced by `⋯`. */
  rows: { first: number; last: number };
}

/** Every picture is `docs/pictures/<name>.svg`. */
export const scenes: Scene[] = [
  {
    name: "demo",
    prepare: "true",
    command: "npm run demo -- --exit",
    columns: 104,
    rows: { first: 30, last: 26 },
  },
  {
    name: "run",
    prepare: `demo_project ~/widgets && cd ~/widgets && sandpiper settings set confirmation_mode true &&
      sandpiper settings set security_analyzer ''`,
    command: 'sandpiper run "Make the failing test pass" --apply',
    columns: 104,
    answers: [
      ...Array.from({ length: 5 }, () => ({ shown: /Run\? \[.*\] $/, type: "y\r" })),
      { shown: /Apply these changes to .*\[.*\] $/, type: "y\r" },
    ],
    rows: { first: 20, last: 24 },
  },
  {
    name: "chat",
    prepare: "sandpiper settings set confirmation_mode false && demo_project ~/gadgets && cd ~/gadgets",
    command: "sandpiper chat",
    columns: 104,
    answers: [
      { shown: /> $/, type: "why does the test fail?\r" },
      { shown: /tokens, .*\n> $/, type: "/diff\r" },
      { shown: /\}\n> $/, type: "/exit\r" },
    ],
    rows: { first: 14, last: 26 },
  },
  {
    name: "ls",
    prepare: "cd ~/widgets",
    command: "sandpiper ls",
    columns: 104,
    rows: { first: 10, last: 0 },
  },
];
