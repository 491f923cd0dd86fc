"""All mutations, by the names of the rules that they remove."""

from tests.simulator import mutations_of_artifacts as mutations_of_artifacts
from tests.simulator import mutations_of_forgetting as mutations_of_forgetting
from tests.simulator import mutations_of_jobs as mutations_of_jobs
from tests.simulator import mutations_of_logs as mutations_of_logs
from tests.simulator import mutations_of_memory as mutations_of_memory
from tests.simulator import mutations_of_payloads as mutations_of_payloads
from tests.simulator import mutations_of_state as mutations_of_state
from tests.simulator import mutations_of_telemetry as mutations_of_telemetry
from tests.simulator.mutating import MUTATIONS, mutated

__all__ = ["MUTATIONS", "mutated"]
