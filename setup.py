"""Package metadata and extras; the build system and the tools' settings are in ``pyproject.toml``."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent

CORE = [
    "torch>=2.2",
    "numpy>=1.26",
    "gymnasium>=1.0",
    "easydict>=1.10",
    "tensorboardX>=2.6",
    "flask>=3.0",
    "requests>=2.32",
    "waitress>=3.0.1",
    "msgspec>=0.19",
    "safetensors>=0.4",
    "click>=8.1",
    "rich>=13.0",
    "cloudpickle>=3.0",
]

EXTRAS = {
    "plot": ["matplotlib>=3.8"],
    "wandb": ["wandb>=0.17"],
    "tensorboard": ["tensorboard>=2.16"],
    "video": ["imageio>=2.34", "imageio-ffmpeg>=0.5", "gymnasium[classic-control]>=1.0"],
    "atari": ["ale-py>=0.10", "opencv-python-headless>=4.9"],
    "box2d": ["gymnasium[box2d]>=1.0"],
    "mujoco": ["gymnasium[mujoco]>=1.0"],
    # It has no wheel for Python 3.10.
    "envpool": ["envpool>=1.0; python_version >= '3.11'"],
    "minigrid": ["minigrid>=3.0"],
    "pettingzoo": ["pettingzoo>=1.24", "mpe2>=1.0"],
    "hdf5": ["h5py>=3.10"],
    "offline": ["h5py>=3.10", "minari>=0.5"],
    "redis": ["redis>=5.0"],
    "tls": ["cheroot>=11.0"],
    "ray": ["ray[default]>=2.60"],
    "sweep": ["optuna>=4.0", "matplotlib>=3.8"],
    "llm": ["transformers>=4.46"],
    "onnx": ["onnx>=1.16", "onnxscript>=0.3", "onnxruntime>=1.18"],
}
EXTRAS["test"] = [
    "pytest>=8.0",
    "pytest-xdist>=3.6",
    "hypothesis>=6.100",
    "psutil>=5.9",
    "responses>=0.25",
    *EXTRAS["plot"],
    *EXTRAS["video"],
    *EXTRAS["offline"],
    *EXTRAS["pettingzoo"],
    *EXTRAS["redis"],
    *EXTRAS["tls"],
]
EXTRAS["docs"] = ["mkdocs-material>=9.5", "mkdocstrings[python]>=0.26"]
EXTRAS["dev"] = [
    *EXTRAS["test"],
    "ruff>=0.6",
    "mypy>=1.10",
    "types-requests>=2.32",
    "types-waitress>=3.0",
    "import-linter>=2.0",
    "coverage>=7.5",
    "py-spy>=0.3",
    "playwright>=1.45",
]

version: dict[str, str] = {}
for line in (HERE / "ding" / "__init__.py").read_text(encoding="utf-8").splitlines():
    if line.startswith("__version__"):
        version["value"] = line.split("=")[1].strip().strip("\"'")

setup(
    name="ding",
    version=version["value"],
    description="A drop-in, column-based implementation of DI-engine's reinforcement-learning worker library",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    # With this, an editable install is a path, which type checkers and editors follow.
    package_dir={"": "."},
    packages=find_packages(include=["ding", "ding.*", "dizoo"]),
    package_data={"ding": ["py.typed", "entry/board/static/*"], "": ["*.pyi", "*.json"]},
    python_requires=">=3.10,<3.14",
    install_requires=CORE,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["ding = ding.entry.cli:main", "ditask = ding.entry.cli_ditask:cli_ditask"]},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
