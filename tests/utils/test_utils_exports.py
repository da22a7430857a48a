"""Packages export what their stubs say, and import it when it is first used."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

import ding
from ding.utils import Registry
from ding.utils.exports import register_lazily

ROOT = Path(ding.__file__).parent
PACKAGES = sorted(".".join(path.relative_to(ROOT.parent).parent.parts) for path in ROOT.rglob("__init__.pyi"))

INIT = """
from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"Later")
"""
FILES = {
    "__init__.py": INIT,
    "__init__.pyi": """
from shop.goods import Apple as Apple
from shop.goods import Pear as Fruit
from shop.pay import pay as pay
from shop.back import *
""",
    "goods.py": "class Apple: ...\nclass Pear: ...\nFruit = Pear\n",
    "pay.py": "def pay(): return 'paid'\n",
    "back/__init__.py": INIT,
    "back/__init__.pyi": "from shop.back.stock import count as count\n",
    "back/stock.py": "def count(): return 7\n",
}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A package of the name ``shop`` with stubs."""
    for name, text in FILES.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("shop")
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def test_a_module_is_imported_when_one_of_its_names_is_used(shop) -> None:
    assert shop.__all__ == ["Apple", "Fruit", "count", "pay"]
    assert {*shop.__all__} <= {*dir(shop)}
    assert "shop.goods" not in sys.modules
    assert shop.Apple is importlib.import_module("shop.goods").Apple
    assert shop.count() == 7
    assert vars(shop)["Apple"] is shop.Apple


def test_a_name_wins_over_the_module_of_the_same_name(shop) -> None:
    importlib.import_module("shop.pay")
    assert shop.pay() == "paid"


def test_star_imports_what_the_stub_says(shop) -> None:
    names: dict[str, object] = {}
    exec("from shop import *", names)  # noqa: S102 - the statement is what is tested
    assert set(shop.__all__) <= set(names)


def test_unknown_names_come_with_the_nearest(shop) -> None:
    with pytest.raises(AttributeError, match=r"module 'shop' has no attribute 'Aple'; did you mean 'Apple'\?"):
        shop.Aple
    with pytest.raises(ImportError, match="shop has no 'LaterClass' in this version"):
        from shop import LaterClass  # noqa: F401
    assert not hasattr(shop, "_private")


def test_lazy_registration_leaves_what_is_there() -> None:
    registry = Registry.named("shelf")
    register_lazily(registry, "apple", "shop.goods:Apple")
    register_lazily(registry, "apple", "shop.goods:Pear")
    assert list(registry) == ["apple"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_there(package) -> None:
    module = importlib.import_module(package)
    assert module.__all__
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
