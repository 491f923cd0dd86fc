"""The views that SQL sees: their columns, what each means, and the queries behind them."""

from lakestore.catalog.views.artifacts import uri_macro
from lakestore.catalog.views.definitions import VIEWS, definitions, views_with
from lakestore.catalog.views.telemetry import answers
from lakestore.catalog.views.view import Column, View, literal, quoted

__all__ = [
    "VIEWS",
    "Column",
    "View",
    "answers",
    "definitions",
    "literal",
    "quoted",
    "uri_macro",
    "views_with",
]
