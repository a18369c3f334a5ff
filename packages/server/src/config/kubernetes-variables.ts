import type { SandboxKind } from "@sandpiper/sandbox/drivers/kubernetes/agent-sandbox";
import { parseFilePath, parseObjectName, parseObjectNames } from "./value-parsers.ts";
import { defineVariable, wholeNumber } from "./variable.ts";

const sandboxKinds: readonly SandboxKind[] = ["auto", "pod", "sandbox"];

/** Variables of the kubernetes driver. */
export const kubernetesVariables = {
  kubeconfig: defineVariable<string | undefined>({
    name: "SANDPIPER_KUBECONFIG",
    description: "File with the address and credentials of the kubernetes driver's cluster",
    defaultText: "KUBECONFIG, else ~/.kube/config, else the service account of the server's pod",
    defaultValue: () => undefined,
    must: "the path of a file",
    parse: parseFilePath,
  }),
  kubernetesNamespace: defineVariable<string | undefined>({
    name: "SANDPIPER_KUBERNETES_NAMESPACE",
    description: "Namespace of the kubernetes driver's pods and volumes",
    defaultText: "that of the kubeconfig or of the server's pod, else default",
    defaultValue: () => undefined,
    must: "the name of a namespace",
    parse: (text) => (/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(text) ? text : undefined),
  }),
  kubernetesInstallation: defineVariable<string | undefined>({
    name: "SANDPIPER_KUBERNETES_INSTALLATION",
    description: "Name that several servers give to the sandboxes which they share in a namespace",
    defaultText: "an id of the PostgreSQL database, else of the data folder",
    defaultValue: () => undefined,
    must: "1 to 12 small letters and digits",
    parse: (text) => (/^[a-z0-9]{1,12}$/.test(text) ? text : undefined),
  }),
  kubernetesKind: defineVariable<SandboxKind>({
    name: "SANDPIPER_KUBERNETES_KIND",
    description:
      "Objects that run the kubernetes driver's sandboxes: pod; sandbox, of kubernetes-sigs/agent-sandbox; auto takes sandbox where the cluster has the type and the server may use it",
    defaultText: "auto",
    defaultValue: () => "auto",
    must: `one of ${sandboxKinds.join(", ")}`,
    parse: (text) => sandboxKinds.find((kind) => kind === text),
  }),
  kubernetesRuntimeClass: defineVariable<string | undefined>({
    name: "SANDPIPER_KUBERNETES_RUNTIME_CLASS",
    description: "Runtime class of the kubernetes driver's pods, such as gvisor or kata",
    defaultText: "the cluster's default runtime",
    defaultValue: () => undefined,
    must: "the name of a RuntimeClass",
    parse: parseObjectName,
  }),
  kubernetesStorageClass: defineVariable<string | undefined>({
    name: "SANDPIPER_KUBERNETES_STORAGE_CLASS",
    description: "Storage class of the kubernetes driver's volumes",
    defaultText: "the cluster's default class",
    defaultValue: () => undefined,
    must: "the name of a StorageClass",
    parse: parseObjectName,
  }),
  kubernetesPullSecrets: defineVariable<string[]>({
    name: "SANDPIPER_KUBERNETES_PULL_SECRETS",
    description:
      "Secrets of the namespace with which nodes fetch the images of the kubernetes driver's pods, separated by commas",
    defaultText: "none",
    defaultValue: () => [],
    must: "a list of names of Secrets, separated by commas",
    parse: parseObjectNames,
  }),
  kubernetesWarmPods: defineVariable<number>({
    name: "SANDPIPER_KUBERNETES_WARM_PODS",
    description:
      "Warm pods that wait for each kind of sandbox of the kubernetes driver that was started in the last hour, four kinds at most",
    defaultText: "0",
    defaultValue: () => 0,
    ...wholeNumber(0, 100),
  }),
  kubernetesUserNamespaces: defineVariable<boolean>({
    name: "SANDPIPER_KUBERNETES_USER_NAMESPACES",
    description:
      "Whether the kubernetes driver's pods have user namespaces (hostUsers: false); off for runtimes and nodes without them",
    defaultText: "on",
    defaultValue: () => true,
    must: "on or off",
    parse: (text) => (text === "on" ? true : text === "off" ? false : undefined),
  }),
};
