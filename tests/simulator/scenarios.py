"""All scenarios, by name."""

from tests.simulator.scenario import Scenario
from tests.simulator.scenarios_of_artifacts import ARTIFACTS
from tests.simulator.scenarios_of_forgetting import FORGETTING
from tests.simulator.scenarios_of_jobs import JOBS
from tests.simulator.scenarios_of_logs import LOGS
from tests.simulator.scenarios_of_memory import MEMORY
from tests.simulator.scenarios_of_payloads import PAYLOADS
from tests.simulator.scenarios_of_rebuilds import REBUILDS
from tests.simulator.scenarios_of_state import STATE
from tests.simulator.scenarios_of_telemetry import TELEMETRY

SCENARIOS: dict[str, Scenario] = {
    **LOGS,
    **STATE,
    **JOBS,
    **FORGETTING,
    **TELEMETRY,
    **MEMORY,
    **REBUILDS,
    **ARTIFACTS,
    **PAYLOADS,
}
