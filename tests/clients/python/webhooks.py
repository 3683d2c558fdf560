"""Receives webhooks, and checks their signatures with the library of Standard Webhooks."""

import os
import queue
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
from standardwebhooks import Webhook, WebhookVerificationError
from standings_client import AuthenticatedClient
from standings_client.api.boards import delete_board, put_board, update_board
from standings_client.api.events import post_event
from standings_client.api.webhooks import delete_webhook, put_webhook, rotate_webhook_secret, test_webhook
from standings_client.models import (
    Board,
    ChangedBoard,
    Definition,
    DefinitionPatch,
    Delivery,
    Event,
    TakenEvent,
    WebhookDefinition,
    WebhookEvent,
    WebhookWithSecret,
)

BOARD, NAME = "clients-webhooks", "clients-python"
Message = tuple[dict[str, str], bytes]
received: queue.Queue[Message] = queue.Queue()
client = AuthenticatedClient(
    base_url=os.environ.get("STANDINGS_URL", "http://127.0.0.1:8080"),
    token=os.environ["STANDINGS_API_KEY"],
    timeout=httpx.Timeout(35),
)


class Receiver(BaseHTTPRequestHandler):
    """Keeps each message with its headers."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        received.put((dict(self.headers.items()), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def verifies(secret: str, message: Message) -> bool:
    headers, body = message
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


def next_message(kind: str) -> Message:
    """Waits for a message of this type; others may come in between."""
    while True:
        headers, body = received.get()
        if f'"type":"{kind}"'.encode() in body:
            return headers, body


def test_message() -> Message:
    """Has the service send a test."""
    queued = test_webhook.sync(NAME, client=client)
    assert isinstance(queued, Delivery), queued
    message = next_message("webhook.test")
    assert message[0]["webhook-id"] == queued.id, message
    return message


server = HTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
webhook = WebhookDefinition(
    url=f"http://127.0.0.1:{server.server_port}/standings",
    events=[WebhookEvent.PERIOD_FINAL],
    boards=[BOARD],
)
created = put_webhook.sync(NAME, client=client, body=webhook)
assert isinstance(created, WebhookWithSecret), created

# The library takes a message, and none with another body, id, time or secret.
message = test_message()
assert verifies(created.secret, message), message
headers, body = message
assert not verifies(created.secret, (headers, body + b" "))
for name, other in [("webhook-id", "msg_1"), ("webhook-timestamp", "1")]:
    assert not verifies(created.secret, ({**headers, name: other}, body)), name
assert not verifies("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", message)

# For a day both secrets are right.
rotated = rotate_webhook_secret.sync(NAME, client=client)
assert isinstance(rotated, WebhookWithSecret) and rotated.secret != created.secret, rotated
assert not verifies(rotated.secret, message)
message = test_message()
assert len(message[0]["webhook-signature"].split(" ")) == 2, message
assert verifies(created.secret, message) and verifies(rotated.secret, message), message

# A board ends, and its result is told.
definition = Definition(windows=["all"], finalize="0s")
assert isinstance(put_board.sync(BOARD, client=client, body=definition), Board)
taken = post_event.sync(BOARD, client=client, body=Event(id="e-1", member="ann", score=30))
assert isinstance(taken, TakenEvent), taken
end = DefinitionPatch.from_dict({"closes_at": datetime.now(UTC).isoformat()})
patched = update_board.sync(BOARD, client=client, body=end)
assert isinstance(patched, ChangedBoard), patched
message = next_message("period.final")
assert verifies(created.secret, message) and verifies(rotated.secret, message), message
assert b"ann" not in message[1]

assert delete_board.sync_detailed(BOARD, client=client).status_code == 204
assert delete_webhook.sync_detailed(NAME, client=client).status_code == 204
server.shutdown()
print("The signatures of webhooks are right.")
