"""Which folders are packages, and what goes beside them; everything else about the project stands in pyproject.toml.

Learners open `kernels/` at the top of the repository, Python imports it as `pagedlab.kernels`. A list of packages in
pyproject.toml could say that too, and would have to name every other folder by hand.
"""

from setuptools import find_packages, setup

KERNELS = {
    "pagedlab.kernels": "kernels",
    "pagedlab.kernels.cpp": "kernels/cpp",
    "pagedlab.kernels.wgsl": "kernels/wgsl",
}

setup(
    packages=[*find_packages(include=["pagedlab", "pagedlab.*"]), *KERNELS],
    package_dir=KERNELS,
    # Where JupyterLab and its server look for extensions.
    data_files=[
        (
            "share/jupyter/labextensions/pagedlab",
            ["pagedlab/viz/labextension/package.json", "pagedlab/viz/labextension/remoteEntry.js"],
        ),
        (
            "etc/jupyter/jupyter_server_config.d",
            ["tools/jupyter/etc/jupyter/jupyter_server_config.d/pagedlab.json"],
        ),
    ],
)
