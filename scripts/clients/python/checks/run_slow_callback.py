"""run() with a callback that takes 50 ms for each event"""

import time

from support import REPEAT, open_conversation, remote_workspace, turn


def slow(_event):
    time.sleep(0.05)


with remote_workspace() as workspace, open_conversation(workspace, callbacks=[slow]) as conversation:
    for _ in range(2 * REPEAT):
        turn(conversation, "echo slow", before_run=lambda: conversation.update_secrets({"NAME": "value"}))
