"""A browser for tests: Chromium through its driver's HTTP interface (W3C WebDriver), as much of it as tests need."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_START_SECONDS = 30.0
_OPTIONS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
]


class Browser:
    """One window. Every method raises RuntimeError with the driver's words."""

    def __init__(self, driver: str, session: str) -> None:
        self._base = f"{driver}/session/{session}"

    def open(self, address: str) -> None:
        """Load a page and wait for it."""
        _ask(f"{self._base}/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a script returns."""
        return _ask(f"{self._base}/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector: str) -> None:
        """Click the first element of a CSS selector as a user does."""
        found = _ask(f"{self._base}/element", {"using": "css selector", "value": selector})
        (element,) = found.values()
        _ask(f"{self._base}/element/{element}/click", {})

    def resize(self, width: int, height: int) -> None:
        """The size of what is seen of the page, as a device of this width shows it."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        _ask(f"{self._base}/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})

    def dark(self) -> None:
        """Ask for dark colours."""
        self.colours("dark")

    def colours(self, scheme: str) -> None:
        """Ask for ``light`` or ``dark`` colours."""
        feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        _ask(f"{self._base}/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": feature})

    def screenshot(self, path: Path) -> None:
        """What is seen, as PNG."""
        path.write_bytes(base64.b64decode(_ask(f"{self._base}/screenshot")))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own below ``folder``; gone afterwards, whatever happened."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = shutil.which("chromedriver")
    chromium = shutil.which("chromium")
    assert driver is not None
    assert chromium is not None
    with subprocess.Popen(
        [driver, f"--port={port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
    ) as process:
        base = f"http://127.0.0.1:{port}"
        try:
            _wait_for(base)
            options = {"binary": chromium, "args": [*_OPTIONS, f"--user-data-dir={folder / 'profile'}"]}
            wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
            session = _ask(f"{base}/session", wanted)["sessionId"]
            try:
                yield Browser(base, session)
            finally:
                _ask(f"{base}/session/{session}", method="DELETE")
        finally:
            process.terminate()


def _wait_for(base: str) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            if _ask(f"{base}/status")["ready"]:
                return
        except OSError:
            pass
        if time.monotonic() > end:
            raise RuntimeError(f"chromedriver is not ready after {_START_SECONDS:.0f} s")
        time.sleep(0.05)


def _ask(address: str, body: dict[str, Any] | None = None, *, method: str = "") -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address, data=data, headers={"Content-Type": "application/json"}, method=method or ("POST" if data else "GET")
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(json.load(error)["value"]["message"]) from None
