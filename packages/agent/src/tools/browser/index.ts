import type { Tool } from "../tool.ts";
import { clickTool, getStateTool, typeTool } from "./elements.ts";
import { getContentTool, goBackTool, navigateTool, scrollTool } from "./pages.ts";
import { getStorageTool, setStorageTool } from "./storage.ts";
import { closeTabTool, listTabsTool, switchTabTool } from "./tabs.ts";

/** The tools of `browser_tool_set` in prompt order (events.md section 3). */
export const browserTools: readonly Tool[] = [
  navigateTool,
  clickTool,
  typeTool,
  getStateTool,
  getContentTool,
  scrollTool,
  goBackTool,
  listTabsTool,
  switchTabTool,
  closeTabTool,
  getStorageTool,
  setStorageTool,
];
