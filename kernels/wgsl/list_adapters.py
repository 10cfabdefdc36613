"""Which adapters are there? A line of JSON for each, from a process of its own: a driver may crash, or never answer.

Mesa is told to keep no cache of kernels: whoever only looks leaves nothing behind.
"""

import json
import os
import sys

os.environ.setdefault("MESA_SHADER_CACHE_DISABLE", "true")

from pagedlab.errors import PagedlabError  # noqa: E402 (drivers read what was set)
from pagedlab.kernels.wgsl.gpu import adapters, is_software, name_of  # noqa: E402 (drivers read what was set)

if __name__ == "__main__":
    try:
        there = adapters()
    except PagedlabError as error:
        sys.exit(str(error))
    for one in there:
        found = {"name": name_of(one), "driver": one.info["description"], "software": is_software(one)}
        print(json.dumps(found))
