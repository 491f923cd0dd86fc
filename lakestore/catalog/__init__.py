"""What SQL sees: refresh, views, queries; the only importer of duckdb."""

from lakestore.catalog.catalog import Catalog
from lakestore.catalog.connections import Connections
from lakestore.catalog.database import QueryError
from lakestore.catalog.views import VIEWS, Column, View

__all__ = ["VIEWS", "Catalog", "Column", "Connections", "QueryError", "View"]
