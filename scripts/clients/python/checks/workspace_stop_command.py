"""A command is started, read and stopped"""
# since: 1.52

from support import remote_workspace, wait_until

with remote_workspace() as workspace:
    started = workspace.start_command("echo begun; sleep 60")
    identifier = getattr(started, "id", None) or getattr(started, "command_id", None) or started
    wait_until(lambda: "begun" in str(workspace.get_command_output(identifier)))
    workspace.stop_command(identifier)
    wait_until(lambda: "-15" in str(workspace.get_command_output(identifier)))
