"""run() with a slow callback while every processor is busy"""

import time

from support import REPEAT, busy_machine, open_conversation, remote_workspace, turn


def slow(_event):
    time.sleep(0.05)


with remote_workspace() as workspace, open_conversation(workspace, callbacks=[slow]) as conversation, busy_machine():
    for _ in range(REPEAT):
        turn(conversation, "echo busy", before_run=lambda: conversation.update_secrets({"NAME": "value"}))
