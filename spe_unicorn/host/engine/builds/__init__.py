"""What is known of builds of the engine, and of hosts: bytes, offsets, quirks. All of it is data.

A file of this folder has one ``KNOWN``. Its name says of what:

- ``unicorn_2_1_4``: a release of the engine, on any host (:class:`~.forms.Release`);
- ``linux_x86_64``: a host, with any release (:class:`~.forms.Host`);
- ``unicorn_2_1_4_on_linux_x86_64``: the code that a release makes on a host
  (:class:`~.forms.CodeForm`).

So another build or another host is another file, and no list names them. Where there is no file for
what is here, nothing that needs one is done: blocks do not count themselves, and a failed assertion
of the engine ends the process. A release without a file is taken to be as :data:`LAST_RELEASE`,
and ``context`` verifies that its saved state is.
"""

from __future__ import annotations

import platform
import re
import sys
from importlib import import_module
from typing import Final, TypeVar

from unicorn import uc_version

from spe_unicorn.host.engine.builds.forms import CodeForm, Host, Release
from spe_unicorn.host.engine.builds.unicorn_2_1_4 import KNOWN as LAST_RELEASE
from spe_unicorn.host.engine.builds.unicorn_2_1_4_on_linux_x86_64 import KNOWN as _LAST_FORM

_T = TypeVar("_T")
_NOT_OF_NAMES: Final = re.compile(r"\W+")


def engine_version() -> tuple[int, int, int]:
    """The version of the engine that is loaded: major, minor, patch."""
    combined = uc_version()[2]
    return combined >> 24 & 0xFF, combined >> 16 & 0xFF, combined >> 8 & 0xFF


def engine_name() -> str:
    """The release of the engine that is loaded, as people write it."""
    return "Unicorn {}.{}.{}".format(*engine_version())


def host_name() -> str:
    """The host, as its file is named: ``linux_x86_64``."""
    return _NOT_OF_NAMES.sub("_", f"{sys.platform}_{platform.machine()}".lower())


def release() -> Release | None:
    """What is known of the release of the engine that is loaded; None if that is nothing."""
    return _known(_release_name(), Release)


def release_numbers() -> Release:
    """The numbers of :func:`release`, those of :data:`LAST_RELEASE` where they are not known."""
    return release() or LAST_RELEASE


def host() -> Host | None:
    """What is known of this host; None if that is nothing."""
    return _known(host_name(), Host)


def code_form() -> CodeForm | None:
    """The form of the engine's translated code here; None if it is not known."""
    return _known(f"{_release_name()}_on_{host_name()}", CodeForm)


def code_numbers() -> CodeForm:
    """The numbers for compiled code: those of :func:`code_form`.

    Where that is not known, they are those of another build, and nothing uses them.
    """
    return code_form() or _LAST_FORM


def _release_name() -> str:
    return "unicorn_{}_{}_{}".format(*engine_version())


def _known(name: str, what: type[_T]) -> _T | None:
    module = f"{__name__}.{name}"
    try:
        known = import_module(module).KNOWN
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None
    if not isinstance(known, what):
        raise TypeError(f"{module} has a {type(known).__name__}, not a {what.__name__}")
    return known
