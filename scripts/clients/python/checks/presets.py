"""Agents of all presets work"""

from openhands.tools.preset.default import get_default_agent
from openhands.tools.preset.gemini import get_gemini_agent
from openhands.tools.preset.gpt5 import get_gpt5_agent
from openhands.tools.preset.planning import get_planning_agent
from support import llm, open_conversation, remote_workspace, turn

with remote_workspace() as workspace:
    for make in (get_default_agent, get_gemini_agent, get_gpt5_agent):
        with open_conversation(workspace, agent=make(llm=llm(), cli_mode=True)) as conversation:
            turn(conversation, f"echo {make.__name__}")
    with open_conversation(workspace, agent=get_planning_agent(llm=llm())) as conversation:
        turn(conversation)
