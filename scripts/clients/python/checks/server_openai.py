"""The OpenAI client talks to the agent: models, chat completions, a stream, a second turn"""

import uuid

from openai import OpenAI
from support import MODEL_URL, remote_workspace

with remote_workspace() as workspace:
    model = {"model": "openai/scripted", "api_key": "sk-scripted", "base_url": MODEL_URL}
    workspace.client.post("/api/profiles/gateway", json={"llm": model, "include_secrets": True}).raise_for_status()
    openai = OpenAI(api_key=workspace.api_key, base_url=f"{workspace.host}/v1", timeout=60)
    listed = {each.id: each for each in openai.models.list()}
    assert listed["openhands_gateway"].owned_by == "openhands", listed
    ask = openai.chat.completions
    chat = [{"role": "developer", "content": "Answer briefly."}, {"role": "user", "content": "say: hello"}]
    raw = ask.with_raw_response.create(model="openhands_gateway", messages=chat)
    assert raw.parse().choices[0].message.content == "hello" and raw.parse().usage.total_tokens > 0
    header = "X-OpenHands-ServerConversation-ID"
    uuid.UUID(raw.headers[header])
    again = ask.with_raw_response.create(model="openhands_gateway", messages=chat, extra_headers={header: raw.headers[header]})
    assert again.headers[header] == raw.headers[header]
    streamed = {"model": "openhands_gateway", "messages": [{"role": "user", "content": "What does it say?"}], "stream": True}
    text = lambda chunks: "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    counted = list(ask.create(**streamed, stream_options={"include_usage": True}))
    assert text(counted) == "It says so." and counted[-1].usage.total_tokens > 0
    assert not [chunk for chunk in ask.create(**streamed) if chunk.usage]
    workspace.client.delete("/api/profiles/gateway")
