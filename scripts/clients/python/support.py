"""What the checks share: a sandbox's workspace, an agent with the scripted model, and one turn that must not end early."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from urllib.parse import urlsplit, urlunsplit

import httpx
from openhands.sdk import LLM, Conversation, RemoteWorkspace
from openhands.tools.preset.default import get_default_agent
from pydantic import SecretStr

URL = os.environ["URL"]
KEY = os.environ["KEY"]
MODEL_URL = os.environ["MODEL_URL"]
#: How often the checks of run() repeat.
REPEAT = int(os.environ.get("REPEAT", "5"))
FOLDER = "/workspace/project"

platform = httpx.Client(base_url=URL, headers={"X-Session-API-Key": KEY}, timeout=60)


def llm(**more):
    return LLM(model="openai/scripted", api_key=SecretStr("sk-scripted"), base_url=MODEL_URL, usage_id="agent", **more)


def agent(**more):
    return get_default_agent(llm=llm(**more), cli_mode=True)


def start_sandbox():
    """A running sandbox, as the platform describes it."""
    started = platform.post("/api/v1/sandboxes").raise_for_status().json()
    while True:
        found = platform.get("/api/v1/sandboxes", params={"id": started["id"]}).raise_for_status().json()[0]
        if found["status"] == "RUNNING":
            return found
        assert found["status"] == "STARTING", found
        time.sleep(0.02)


@contextlib.contextmanager
def remote_workspace(host=None):
    """A workspace of the SDK in a sandbox of its own; `host` changes its address."""
    sandbox = start_sandbox()
    address = next(each["url"] for each in sandbox["exposed_urls"] if each["name"] == "AGENT_SERVER")
    address = host(address) if host else address
    try:
        yield RemoteWorkspace(host=address, api_key=sandbox["session_api_key"], working_dir=FOLDER)
    finally:
        platform.delete(f"/api/v1/sandboxes/{sandbox['id']}")


@contextlib.contextmanager
def open_conversation(workspace, **more):
    # By default the SDK deletes a conversation when it closes it.
    options = {"agent": more.pop("agent", None) or agent(), "delete_on_close": False, **more}
    conversation = Conversation(workspace=workspace, visualizer=None, **options)
    try:
        yield conversation
    finally:
        # The SDK waits five seconds for its socket, unless the server closes it first.
        closing = threading.Thread(target=conversation.close, daemon=True)
        closing.start()
        if options["delete_on_close"]:
            closing.join()


def info_of(conversation):
    return conversation.workspace.client.get(f"/api/conversations/{conversation.id}").raise_for_status().json()


def turn(conversation, *commands, before_run=None):
    """Sends a message, runs, and fails when run() returns before the turn has ended."""
    marker = uuid.uuid4().hex
    conversation.send_message("\n".join([*(f"run: {command}" for command in commands), f"say: {marker}"]))
    if before_run:
        before_run()
    conversation.run(timeout=100)
    assert_finished(conversation, marker)


def assert_finished(conversation, marker):
    status = info_of(conversation)["execution_status"]
    assert status == "finished", f"run() returned early: the conversation is {status}"
    texts = [event.model_dump_json() for event in conversation.state.events]
    assert any(marker in text and "FinishAction" in text for text in texts), "run() returned without the turn's last event"


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {condition}"
        time.sleep(0.02)


@contextlib.contextmanager
def busy_machine():
    """Keeps every processor busy."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


class DroppingProxy:
    """A TCP proxy before the platform that drops each event socket after a while."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.dropped = 0
        self.target = (urlsplit(URL).hostname, urlsplit(URL).port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def address(self, url):
        """The address of the platform, through the proxy."""
        return urlunsplit(urlsplit(url)._replace(netloc=f"127.0.0.1:{self.listener.getsockname()[1]}"))

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = socket.create_connection(self.target)
        first = client.recv(65536)
        server.sendall(first)
        if b"/sockets/" in first.split(b"\r\n")[0]:
            threading.Timer(self.seconds, self._drop, [client, server]).start()
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _drop(self, *sockets):
        self.dropped += 1
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()


def workspace_text(workspace, name):
    """A file of the working folder, which the agent's last command has written."""
    result = workspace.execute_command(f"cat {name}", cwd=workspace.working_dir)
    assert result.exit_code == 0, result
    return result.stdout
