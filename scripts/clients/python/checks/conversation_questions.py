"""ask_agent, condense and generate_title do not disturb the conversation"""

from support import info_of, llm, open_conversation, remote_workspace, turn

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    turn(conversation, "echo one", "echo two")
    assert conversation.ask_agent("What did you do?")
    assert conversation.generate_title(llm=llm())
    conversation.condense()
    assert info_of(conversation)["execution_status"] in ("idle", "finished")
    turn(conversation, "echo three")
