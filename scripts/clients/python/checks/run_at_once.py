"""run() of a turn without tools, which ends at once"""

from support import REPEAT, open_conversation, remote_workspace, turn

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    for _ in range(4 * REPEAT):
        turn(conversation)
