"""The whole memory contract, gathered in one class: every rule that a memory service keeps.

Owns the list of its parts only. Services are given by fixtures: `memories` is the service,
`elsewhere` the same storage as another process sees it.
"""

from __future__ import annotations

from tests.contracts.memory_contract_add import MemoryAddContract
from tests.contracts.memory_contract_delete import MemoryDeleteContract
from tests.contracts.memory_contract_ids import MemoryIdContract
from tests.contracts.memory_contract_own import (
    MemoryBlockingContract,
    MemoryFactContract,
    MemoryFilterContract,
    MemoryPurgeContract,
    MemoryScopeContract,
)
from tests.contracts.memory_contract_search import MemorySearchContract


class MemoryContract(
    MemoryAddContract,
    MemorySearchContract,
    MemoryDeleteContract,
    MemoryIdContract,
    MemoryFactContract,
    MemoryScopeContract,
    MemoryPurgeContract,
    MemoryFilterContract,
    MemoryBlockingContract,
):
    """All rules."""


PARTS = MemoryContract.__bases__
