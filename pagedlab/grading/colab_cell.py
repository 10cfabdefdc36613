# @title Google Colab: run this cell first. Anywhere else it does nothing.
import sys

COURSE = ""  # what pip is to install; "" takes the pagedlab-….whl that you uploaded (folder icon on the left)

if "google.colab" in sys.modules:
    import glob
    import importlib.metadata as packages
    import importlib.util
    import re
    import subprocess

    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not importlib.util.find_spec("pagedlab"):
        course = COURSE or "".join(sorted(glob.glob("pagedlab-*.whl"))[-1:])
        if not course:
            raise RuntimeError("Upload your course's pagedlab-….whl (folder icon on the left), then run this again.")
        subprocess.run([*pip, "--no-deps", course], check=True)
    # torch stays as it is here, and so does everything else that is installed: only what is missing comes.
    there = {re.sub("[-_.]+", "-", one.name).lower(): one.version for one in packages.distributions() if one.name}
    wanted = [line.split(";")[0].strip() for line in packages.requires("pagedlab") if "extra ==" not in line]
    as_is = {"torch", "triton", "numpy", "jupyterlab"}
    missing = [line for line in wanted if re.match(r"[\w.-]+", line)[0] not in {*there, *as_is}]
    with open("as-it-is.txt", "w") as file:
        file.write("".join(f"{name}=={there[name]}\n" for name in as_is & set(there)))
    if missing:
        subprocess.run([*pip, "--constraint", "as-it-is.txt", *missing], check=True)
    importlib.invalidate_caches()
