import os
import random
import time
from http import HTTPStatus

import httpx
from standings_client import AuthenticatedClient
from standings_client.api.boards import delete_board, put_board
from standings_client.api.events import post_event, post_events
from standings_client.api.standings import get_member, get_page, get_subset
from standings_client.models import (
    Batch,
    BatchEvent,
    BatchResult,
    Board,
    Definition,
    Event,
    Member,
    Page,
    Problem,
    ProblemCode,
    QueuedEvent,
    RejectedEvent,
    Retention,
    Subset,
    TakenEvent,
    TakenEventStatus,
)

BOARD = "clients-python"
client = AuthenticatedClient(
    base_url=os.environ.get("STANDINGS_URL", "http://127.0.0.1:8080"),
    token=os.environ["STANDINGS_API_KEY"],
    timeout=httpx.Timeout(35),
)


def post(event: Event) -> TakenEvent:
    """Posts an event, and retries while that may help. With its id it counts once."""
    pause, retry_after = 0.2, 0.0
    while True:
        try:
            answer = post_event.sync_detailed(BOARD, client=client, body=event)
            if isinstance(answer.parsed, TakenEvent):
                return answer.parsed
            if isinstance(answer.parsed, QueuedEvent):
                raise RuntimeError(f"{answer.parsed.id} is queued")  # the board has `ingest: async`
            problem = answer.parsed
            if problem and problem.status < 500:
                if problem.code not in (ProblemCode.RATE_LIMITED, ProblemCode.REQUEST_TIMEOUT):
                    raise RuntimeError(f"{problem.code}: {problem.detail}")
            retry_after = float(answer.headers.get("Retry-After", 0))
        except httpx.TransportError:
            pass
        time.sleep(max(retry_after, pause * random.uniform(0.5, 1)))
        pause = min(pause * 2, 10)


# Create a board. What the definition leaves out has a default.
definition = Definition(windows=["day", "all"], retention=Retention(day="90d"), score_max=100)
created = put_board.sync(BOARD, client=client, body=definition)
assert isinstance(created, Board), created
assert created.timezone == "UTC"

# Post an event, and send it again as if the response had been lost.
event = Event(id="e-1", member="ann", score=30)
taken = post(event)
assert taken.status == TakenEventStatus.APPLIED
assert taken.standings[0].score == 30
assert post(event).status == TakenEventStatus.DUPLICATE

# Post a batch. Each event has its own result: accepted or rejected.
events = [
    BatchEvent(board=BOARD, id="e-2", member="bob", score=20),
    BatchEvent(board=BOARD, id="e-3", member="cid", score=1000),
]
batch = post_events.sync(client=client, body=Batch(events=events))
assert isinstance(batch, BatchResult), batch
refused = [result.problem.code for result in batch.results if isinstance(result, RejectedEvent)]
assert refused == [ProblemCode.SCORE_OUT_OF_RANGE]

# Read a page, and again only if it has changed.
answer = get_page.sync_detailed(BOARD, "day", client=client, size=10)
assert isinstance(answer.parsed, Page), answer
lines = [f"{entry.rank}. {entry.member} {entry.score:g}" for entry in answer.parsed.entries]
assert lines == ["1. ann 30", "2. bob 20"]
unchanged = get_page.sync_detailed(
    BOARD, "day", client=client, size=10, if_none_match=answer.headers["ETag"]
)
assert unchanged.status_code == HTTPStatus.NOT_MODIFIED

# Read a member with its neighbours, and some members.
member = get_member.sync(BOARD, "day", "bob", client=client, around=1)
assert isinstance(member, Member) and member.rank == 2
assert member.ahead and member.ahead.gap == 10
friends = get_subset.sync(BOARD, "day", client=client, ids=["ann", "zoe"])
assert isinstance(friends, Subset) and friends.not_found == ["zoe"]

# Branch on the code of a problem.
stranger = get_member.sync(BOARD, "day", "zoe", client=client)
assert isinstance(stranger, Problem), stranger
if stranger.code != ProblemCode.MEMBER_NOT_FOUND:
    raise RuntimeError(stranger.detail)

deleted = delete_board.sync_detailed(BOARD, client=client)
assert deleted.status_code == HTTPStatus.NO_CONTENT
print("The Python client has played its session.")
