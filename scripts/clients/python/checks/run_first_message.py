"""run() returns when the first message has been worked on"""

from support import REPEAT, open_conversation, remote_workspace, turn

with remote_workspace() as workspace:
    for _ in range(REPEAT):
        with open_conversation(workspace) as conversation:
            turn(conversation, "echo first > first.txt")
