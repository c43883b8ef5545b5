"""Settings for every test."""

from __future__ import annotations

from hypothesis import settings

# A run that failed must fail again, on a busy machine as well as on an idle one. To look for new
# counterexamples: pytest --hypothesis-profile explore
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("steady")
