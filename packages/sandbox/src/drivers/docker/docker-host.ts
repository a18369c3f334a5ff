/** Address of a Docker or Podman engine. */
export type DockerHost = { socketPath: string } | { protocol: "http" | "https"; host: string; port: number };
