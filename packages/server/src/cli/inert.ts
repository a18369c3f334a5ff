export { inert, inertJson, inertLine } from "@sandpiper/core/inert";
