import type { BrowserObservation, Content } from "@sandpiper/wire";

/** What the model reads of a call of the browser: its text, and the picture as one (events.md section 4: the event holds it beside the content). */
export function renderBrowser({ content, screenshot_data: data }: BrowserObservation): Content[] {
  if (!data) return content;
  const type = data.startsWith("iVBOR") ? "png" : "jpeg";
  return [
    ...content,
    { type: "image", image_urls: [`data:image/${type};base64,${data}`], cache_prompt: false },
  ];
}
