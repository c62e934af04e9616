"""The build hook. With HEADWAY_COMPILE=1 a wheel's gate is machine code: docs/decisions/0015-a-compiled-gate.md."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILERS = (
    "mypy>=2.4,<3",
    "setuptools>=77",
    "msgspec>=0.18.6",
)  # msgspec: its types, so that all is checked as ever
GROUP = (
    "headway_gate"  # the one library that all modules are in; what stands beside their source only loads it
)


class GateCompiler(BuildHookInterface):
    """Compiles the modules that pyproject.toml names, when asked to. An editable install is never compiled."""

    def dependencies(self) -> list[str]:
        """What a build needs beside hatchling."""
        return list(COMPILERS) if _wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the compiled modules beside their source. Raises RuntimeError when they can't be made."""
        if version == "editable" or not _wanted():
            return
        source = Path(self.root, "src")
        self._folder = tempfile.TemporaryDirectory(prefix="headway-compile-")
        tree = Path(self._folder.name, "src")
        shutil.copytree(source, tree, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        made = subprocess.run(
            [sys.executable, __file__, str(Path(self.root)), *self.config["modules"]], cwd=tree
        )
        if made.returncode:
            raise RuntimeError(
                "HEADWAY_COMPILE=1: the gate could not be compiled; the reason stands above. It needs a C compiler and "
                "Python's headers (Debian: apt install gcc python3-dev). Without HEADWAY_COMPILE it's installed as "
                "Python, which does the same with more CPU per request."
            )
        for library in tree.rglob("*.so"):
            build_data["force_include"][str(library)] = library.relative_to(tree).as_posix()
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel is there: what was made for it can go."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _wanted() -> bool:
    return os.environ.get("HEADWAY_COMPILE", "") not in ("", "0")


def _compile_here(root: str, modules: list[str]) -> None:
    """Compile files of the working directory in place."""
    from mypyc.build import mypycify
    from setuptools import setup

    options = [f"--config-file={root}/pyproject.toml", "--cache-dir=../mypy"]
    extensions = mypycify(
        [*options, *modules], opt_level="2", debug_level="0", target_dir="../c", group_name=GROUP
    )
    for extension in extensions:
        extension.extra_compile_args.append("-Wno-error")  # what a newer C compiler warns of is no error
    setup(
        name=GROUP,
        packages=[],
        ext_modules=extensions,
        script_args=["--quiet", "build_ext", "--inplace", "--build-temp", "../o", "--build-lib", "../lib"],
    )


if __name__ == "__main__":
    _compile_here(sys.argv[1], sys.argv[2:])
