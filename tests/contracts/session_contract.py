"""The whole session contract: every rule that a session service keeps, gathered in one class.

Owns the list of its parts only. Each part is a file that states the rules of one matter; a new
rule goes there, a new service into `cases_adk` or `cases_lake`. Services are given by fixtures:
`sessions` is the service, `elsewhere` the same storage as another process sees it, `turns` the
storage with `durability="turn"`.
"""

from __future__ import annotations

from tests.contracts.session_contract_append import AppendContract
from tests.contracts.session_contract_blocking import BlockingContract
from tests.contracts.session_contract_create import CreateContract
from tests.contracts.session_contract_delete import DeleteContract
from tests.contracts.session_contract_events import EventFieldContract
from tests.contracts.session_contract_extras import (
    AppendEventsContract,
    PagesContract,
    UserEventsContract,
)
from tests.contracts.session_contract_ids import IdContract
from tests.contracts.session_contract_list import ListContract
from tests.contracts.session_contract_properties import PropertyContract
from tests.contracts.session_contract_read import ReadContract
from tests.contracts.session_contract_refusal import RefusalContract
from tests.contracts.session_contract_retry import RedeliveryContract
from tests.contracts.session_contract_stale import StaleContract
from tests.contracts.session_contract_state import StateContract
from tests.contracts.session_contract_turns import TurnContract
from tests.contracts.session_contract_values import StateValueContract


class SessionContract(
    CreateContract,
    IdContract,
    ReadContract,
    ListContract,
    DeleteContract,
    AppendContract,
    RedeliveryContract,
    StaleContract,
    RefusalContract,
    EventFieldContract,
    StateContract,
    StateValueContract,
    PropertyContract,
    AppendEventsContract,
    UserEventsContract,
    PagesContract,
    TurnContract,
    BlockingContract,
):
    """All rules."""


PARTS = SessionContract.__bases__
