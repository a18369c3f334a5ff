import { describeClusterDriver } from "../support/cluster-driver.ts";

describeClusterDriver("the kubernetes driver with a warm pool", { warmPods: 2, installation: "pool" });
