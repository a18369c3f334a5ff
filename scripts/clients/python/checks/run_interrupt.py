"""run() returns on an interrupt, and the next turn runs to its end"""

import threading
import time

from support import REPEAT, info_of, open_conversation, remote_workspace, turn, wait_until

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    for _ in range(REPEAT):
        conversation.send_message("run: sleep 30\nsay: never")
        working = threading.Thread(target=lambda: conversation.run(timeout=60))
        began = time.monotonic()
        working.start()
        wait_until(lambda: info_of(conversation)["execution_status"] == "running")
        conversation.interrupt()
        working.join(60)
        assert not working.is_alive(), "run() did not return on an interrupt"
        assert time.monotonic() - began < 25, "the interrupt waited for the command"
        assert info_of(conversation)["execution_status"] == "paused"
        turn(conversation, "echo next")
