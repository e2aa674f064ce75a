"""How hard to search, chosen by HYPOTHESIS_PROFILE: `dev` (default), `ci` or `nightly`.

`ci` draws the same examples in every run, so that a failure there is never a matter of luck.
No example is limited in time, and none is kept between runs: what was found becomes a test.
"""

import os

from hypothesis import settings

settings.register_profile("dev", max_examples=50, deadline=None, database=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("dev"), max_examples=100, derandomize=True)
settings.register_profile("nightly", settings.get_profile("dev"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
