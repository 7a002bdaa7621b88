"""Builds the compiled twins of the record codecs where that is possible; everything else stands in pyproject.toml.

The extensions are optional: without Cython or a C compiler the installation succeeds, and the Python twins serve.
"""

import os

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

COMPILED = ("_codec", "_codec_columns")
SERVES = "the pure Python record codec will serve (slower, same behaviour)"


class OptionalBuild(build_ext):
    """A build_ext that says what a failure means instead of failing."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as failure:
            self.missing(failure)

    def build_extension(self, extension: Extension) -> None:
        try:
            super().build_extension(extension)
        except Exception as failure:
            self.missing(failure)

    def copy_extensions_to_source(self) -> None:
        """For an editable installation: only what was built can be copied."""
        try:
            super().copy_extensions_to_source()
        except OSError as failure:
            self.missing(failure)

    def missing(self, failure: Exception) -> None:
        print(f"warning: ottla's compiled record codec was not built ({failure}); {SERVES}")


def extensions() -> list[Extension]:
    """The codecs translated to C; nothing where there is no Cython, or where a wheel for every platform is wanted."""
    if os.environ.get("OTTLA_PURE_PYTHON", "") not in ("", "0"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        print(f"warning: Cython is not installed; {SERVES}")
        return []
    twins = [Extension(f"ottla.records.{name}", [f"src/ottla/records/{name}.pyx"]) for name in COMPILED]
    return list(cythonize(twins, build_dir="build/cython"))  # the C beside the sources would end up in the wheel


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuild})
