"""The switches of the kernels."""

import threading

import pytest

from harken.kernels.settings import device_only, is_device_only, kernels_enabled


def test_device_only_holds_for_its_thread_alone() -> None:
    others: list[bool] = []
    with device_only():
        with device_only():
            pass
        assert is_device_only()
        thread = threading.Thread(target=lambda: others.append(is_device_only()))
        thread.start()
        thread.join()
    assert others == [False] and not is_device_only()


def test_the_variable_is_read_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert not kernels_enabled()
    monkeypatch.delenv("HARKEN_KERNELS")
    assert kernels_enabled()
