"""Forks with a title, tags and an id, from an event, and with the costs of the source"""

import uuid

from openhands.sdk.event import ActionEvent, MessageEvent
from support import info_of, open_conversation, remote_workspace, turn

with remote_workspace() as workspace, open_conversation(workspace, tags={"kind": "source"}) as source:
    turn(source, "echo source")
    count = len(source.state.events)
    made = uuid.uuid4()
    named = source.fork(conversation_id=made, title="A fork", tags={"purpose": "trial"})
    info = info_of(named)
    assert named.id == made and info["title"] == "A fork" and info["tags"]["purpose"] == "trial", info
    first = next(event for event in source.state.events if isinstance(event, MessageEvent))
    early = source.fork(from_event_id=first.id)
    assert not [event for event in early.state.events if isinstance(event, ActionEvent)]
    tokens = lambda fork: fork.conversation_stats.get_combined_metrics().accumulated_token_usage
    assert not tokens(early) or tokens(early).prompt_tokens == 0
    assert tokens(source.fork(reset_metrics=False)).prompt_tokens > 0
    turn(named, "echo fork")
    assert len(source.state.events) == count, "the source has changed"
