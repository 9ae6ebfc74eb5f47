"""One line of a price list: a quantity of something, at a price of the catalog."""

from __future__ import annotations

from dataclasses import dataclass

from infra.catalog import Catalog, Price

MONTH_H = 730
"""Hours of a month, as price lists count them."""


@dataclass(frozen=True)
class LineItem:
    """`quantity` of the price's unit, less what is free of charge: `usd` in the period of the list it stands in."""

    label: str
    quantity: float
    usd: float
    price: Price
    region: str
    """The region asked for; a price row without a region stood in for it."""


def price_line(catalog: Catalog, label: str, quantity: float, sku: str, region: str) -> LineItem:
    """Return the line for `quantity` units of `sku` in `region`. Raises CatalogError for an unknown sku."""
    price = catalog.price(sku, region)
    return LineItem(label, quantity, max(0.0, quantity - price.free_allowance) * price.usd, price, region)
