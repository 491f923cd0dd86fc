"""The whole artifact contract, gathered in one class: every rule that an artifact service keeps.

Owns the list of its parts only. Services are given by fixtures: `artifacts` is the service,
`elsewhere` the same storage as another process sees it.
"""

from __future__ import annotations

from tests.contracts.artifact_contract_names import ArtifactDeleteContract, ArtifactNameContract
from tests.contracts.artifact_contract_own import ArtifactBlockingContract, ArtifactOwnContract
from tests.contracts.artifact_contract_refs import ArtifactReferenceContract
from tests.contracts.artifact_contract_refusal import ArtifactRefusalContract
from tests.contracts.artifact_contract_save import ArtifactSaveContract


class ArtifactContract(
    ArtifactSaveContract,
    ArtifactNameContract,
    ArtifactDeleteContract,
    ArtifactReferenceContract,
    ArtifactRefusalContract,
    ArtifactOwnContract,
    ArtifactBlockingContract,
):
    """All rules."""


PARTS = ArtifactContract.__bases__
