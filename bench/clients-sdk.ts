import { execFile } from "node:child_process";
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { findPython, installSdk, sdks } from "../scripts/clients/python.ts";
import type { AgentBench } from "./agent-processes.ts";
import { figures, type Row } from "./measure.ts";

/** Prints the seconds of each run of two tools, after one that is not counted. */
const program = `
import os, time
from openhands.sdk import LLM, Conversation, RemoteWorkspace
from openhands.tools.preset.default import get_default_agent
from pydantic import SecretStr

workspace = RemoteWorkspace(host=os.environ["URL"], api_key=os.environ["KEY"], working_dir="/workspace/project")
llm = LLM(model="openai/scripted", api_key=SecretStr("sk-bench"), base_url=os.environ["MODEL"])
agent = get_default_agent(llm=llm, cli_mode=True)
conversation = Conversation(agent=agent, workspace=workspace, visualizer=None)
for index in range(11):
    began = time.monotonic()
    conversation.send_message(f"bench-shell-sdk-{index}:2;")
    conversation.run()
    if index: print(time.monotonic() - began, flush=True)
`;

/** A run of two tools by the newest Python SDK; no row without Python 3.12 or newer. */
export async function sdkRows(
  { modelUrl }: AgentBench,
  { url, key }: { url: string; key: string },
): Promise<Row[]> {
  const python = findPython();
  if (!python) {
    console.error("The Python SDK is not measured: it needs Python 3.12 or newer.");
    return [];
  }
  const cache = fileURLToPath(new URL("../.cache/clients", import.meta.url));
  mkdirSync(cache, { recursive: true });
  const interpreter = installSdk(python, cache, sdks.at(-1)!);
  const env = {
    ...process.env,
    ...{ URL: url, KEY: key, MODEL: modelUrl },
    OPENHANDS_SUPPRESS_BANNER: "1",
    LITELLM_LOCAL_MODEL_COST_MAP: "True",
  };
  const { stdout } = await promisify(execFile)(interpreter, ["-c", program], { env });
  const seconds = stdout.split("\n").map(Number).filter(Boolean);
  const own = figures(seconds);
  return [
    {
      name: `a run of two tools by the Python SDK ${sdks.at(-1)!.version}`,
      ...{ unit: "s", figures: own, target: "<= 0.2 s", met: own.p50 <= 0.2 },
    },
  ];
}
