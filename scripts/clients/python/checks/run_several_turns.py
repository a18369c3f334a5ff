"""run() of several turns in one conversation"""

from support import REPEAT, open_conversation, remote_workspace, turn

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    for count in range(3 * REPEAT):
        turn(conversation, f"echo {count} > turn.txt", "cat turn.txt")
