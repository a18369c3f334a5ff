/** Variables of the command line and the scripts. */
export const otherVariables: readonly {
  name: `SANDPIPER_${string}`;
  meaning: string;
  defaultText: string;
}[] = [
  {
    name: "SANDPIPER_URL",
    meaning: "Server that all commands use, together with SANDPIPER_API_KEY",
    defaultText: "the server of the data folder, else one of its own",
  },
  {
    name: "SANDPIPER_DEBUG",
    meaning: "1 shows the stack of an error that ends a command",
    defaultText: "off",
  },
  {
    name: "SANDPIPER_SKIP_SYSTEM_PACKAGES",
    meaning: "1 prevents the set-up from installing packages of the distribution",
    defaultText: "off",
  },
];
