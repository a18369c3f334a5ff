"""run() while the event socket is dropped again and again"""

from support import REPEAT, DroppingProxy, open_conversation, remote_workspace, turn

proxy = DroppingProxy(seconds=0.4)
with remote_workspace(proxy.address) as workspace, open_conversation(workspace) as conversation:
    for _ in range(REPEAT):
        turn(conversation, "sleep 1.5", "echo through")
    assert proxy.dropped > 0
proxy.close()
