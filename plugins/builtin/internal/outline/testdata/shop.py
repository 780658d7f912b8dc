"""Orders."""
import os

LIMIT = 10
RATES: dict[str, float] = {
    "de": 0.19,
}

if os.name == "nt":
    def clear(screen): pass
else:
    def clear(screen, *, fast=False):
        pass


@decorator(1)
class Order(Base, metaclass=Meta):
    kind = "order"

    def __init__(self, items: list[str],
                 total: float = 0.0) -> None:
        def local():
            pass
        self.items = items

    @property
    async def total(self) -> float:
        return 1.0

    class Line:
        def price(self): return 1


async def load(path: str) -> Order: ...
