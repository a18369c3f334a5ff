import type { Cluster } from "./cluster.ts";
import { labels } from "./labels.ts";

/**
 * Denies the pods of an installation every connection. The pods need no connection, because ports
 * and the egress proxy use the exec connection. Idempotent.
 */
export async function denyNetwork(cluster: Cluster, installation: string): Promise<void> {
  const { namespace } = cluster;
  await cluster.request(
    "create networkpolicies.networking.k8s.io",
    () =>
      cluster.networking.createNamespacedNetworkPolicy({
        namespace,
        body: {
          metadata: {
            name: `sandpiper-${installation}`,
            labels: { [labels.installation]: installation, "app.kubernetes.io/part-of": "sandpiper" },
          },
          spec: {
            podSelector: { matchLabels: { [labels.installation]: installation } },
            policyTypes: ["Ingress", "Egress"],
            ingress: [],
            egress: [],
          },
        },
      }),
    { 409: () => undefined },
  );
}
