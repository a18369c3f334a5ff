"""Costs and tokens of a model whose prices are known"""

from openhands.sdk import LLM, Agent
from support import MODEL_URL, open_conversation, remote_workspace

model = LLM(model="gpt-4o-mini", api_key="sk-scripted", base_url=MODEL_URL, usage_id="agent")
with remote_workspace() as workspace, open_conversation(workspace, agent=Agent(llm=model, tools=[])) as conversation:
    metrics = lambda: conversation.conversation_stats.get_combined_metrics()
    assert metrics().accumulated_cost == 0
    conversation.send_message("say: paid")
    conversation.run(timeout=60)
    tokens = metrics().accumulated_token_usage
    assert metrics().accumulated_cost > 0 and tokens.prompt_tokens > 0 and tokens.completion_tokens > 0, metrics()
