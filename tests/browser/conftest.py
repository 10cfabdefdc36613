"""The browser's tests: see ``jupyter`` and ``lab_page`` in tests/conftest.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # tests here share what test_memory_map.py has
