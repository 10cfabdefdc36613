#!/bin/sh
# For exercise 05.3 in WGSL, on Debian and Ubuntu: a driver with which a CPU does a GPU's work. Whoever has a GPU needs none.
set -eu
if ls /usr/share/vulkan/icd.d/*.json >/dev/null 2>&1; then exit 0; fi
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
as_root apt-get update -qq
as_root apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers libvulkan1
