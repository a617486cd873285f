"""Where the tests find the example apps, which live outside of the SDK."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

GUESTS = Path(__file__).resolve().parents[3] / "guests"


def load_guest(path: str) -> ModuleType:
    """Imports a guest's entry module from its file."""
    file = GUESTS / path
    name = f"guest_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def travel() -> ModuleType:
    """guests/travel."""
    return load_guest("travel/travel.py")


@pytest.fixture(scope="session")
def cart() -> ModuleType:
    """guests/cart/order."""
    return load_guest("cart/order/order.py")


@pytest.fixture(scope="session")
def ycsb() -> ModuleType:
    """guests/ycsb-python."""
    return load_guest("ycsb-python/ycsb.py")
