import { describeClusterDriver } from "../support/cluster-driver.ts";

describeClusterDriver("the kubernetes driver");
