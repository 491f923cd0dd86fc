"""The view `costs`: what each answer of a model cost, by prices that the user gives."""

from lakestore.catalog.views.llm_calls import COLUMNS
from lakestore.catalog.views.view import NUMBER, Column, View

_COSTS = {
    "prompt_cost": Column(NUMBER, "of prompt tokens that came from no cache"),
    "cached_cost": Column(NUMBER, "of prompt tokens that came from a cache"),
    "output_cost": Column(NUMBER, "of tokens of the answer"),
    "thought_cost": Column(NUMBER, "of thought tokens that are not in output_tokens already"),
    "tool_use_cost": Column(NUMBER, "of what total_tokens counts besides: results of tools"),
    "cost": Column(NUMBER, "all of them, in the currency of the prices; null where unknown"),
}
_LEFT_OUT = ("tool_use_tokens", "latency_ms", "time_to_first_token_ms")

# Some models count thoughts into the output, some beside it: the total tells. So no query for
# costs opens the JSON. Prices are looked up once for each model that there is.
_QUERY = f"""
WITH models AS (
  SELECT model_version AS model FROM internal.all_events GROUP BY model_version
), priced AS (
  SELECT models.model, price.* FROM models JOIN internal.prices AS price
    ON models.model = price.name OR (price.is_prefix AND starts_with(models.model, price.name))
  QUALIFY dense_rank() OVER (PARTITION BY models.model ORDER BY is_prefix, len(name) DESC) = 1
), counted AS (
  SELECT *, internal.positive(total_tokens::DOUBLE - prompt_tokens - output_tokens) AS besides
  FROM main.llm_calls
), split AS (
  SELECT *, CASE WHEN thought_tokens > besides THEN besides ELSE thought_tokens END AS apart
  FROM counted
), costed AS (
  SELECT split.*,
    internal.positive(prompt_tokens::DOUBLE - coalesce(cached_tokens, 0)) * priced.prompt
      AS prompt_cost,
    cached_tokens * priced.cached AS cached_cost,
    output_tokens * priced.output AS output_cost,
    apart * priced.thought AS thought_cost,
    internal.positive(besides - coalesce(apart, 0)) * priced.tool_use AS tool_use_cost
  FROM split ASOF LEFT JOIN priced ON split.model = priced.model
    AND coalesce(split.event_time, '0001-01-01 00:00:00+00'::TIMESTAMPTZ) >= priced.since
)
SELECT {", ".join(name for name in COLUMNS if name not in _LEFT_OUT)},
  prompt_cost, cached_cost, output_cost, thought_cost, tool_use_cost,
  CASE WHEN coalesce(prompt_cost, output_cost, thought_cost) IS NOT NULL THEN
    coalesce(prompt_cost, 0) + coalesce(cached_cost, 0) + coalesce(output_cost, 0)
      + coalesce(thought_cost, 0) + coalesce(tool_use_cost, 0) END AS cost
FROM costed
"""

COSTS = View(
    "one row a row of `llm_calls`, with what it cost by `Lake.set_prices`",
    {**{name: kind for name, kind in COLUMNS.items() if name not in _LEFT_OUT}, **_COSTS},
    _QUERY,
)
