"""What SQL sees: refresh, views, queries; the only importer of duckdb."""

from lakestore.catalog.catalog import Catalog
from lakestore.catalog.database import QueryError, Relation
from lakestore.catalog.prices import Prices, price_table
from lakestore.catalog.queries import Queries
from lakestore.catalog.views import VIEWS, Column, View

__all__ = [
    "VIEWS",
    "Catalog",
    "Column",
    "Prices",
    "Queries",
    "QueryError",
    "Relation",
    "View",
    "price_table",
]
