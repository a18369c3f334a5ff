"""RemoteConversation.create and .attach"""
# since: 1.50

from openhands.sdk.conversation.request import StartConversationRequest
from openhands.sdk.conversation.impl.remote_conversation import RemoteConversation
from openhands.sdk.workspace import LocalWorkspace
from support import FOLDER, agent, remote_workspace, turn

with remote_workspace() as workspace:
    request = StartConversationRequest(agent=agent(), workspace=LocalWorkspace(working_dir=FOLDER))
    created = RemoteConversation.create(workspace, request, visualizer=None)
    turn(created, "echo created > created.txt")
    attached = RemoteConversation.attach(workspace, created.id, visualizer=None)
    assert attached.agent.llm.model == "openai/scripted"
    turn(attached, "grep created created.txt")
    attached.close()
    created.close()
