from pathlib import Path

from setuptools import setup
from setuptools_scm import get_version

lines = (Path(__file__).parent / "requirements" / "cpu.txt").read_text().splitlines()
version = get_version(write_to="vllm/_version.py")
setup(
    version=f"{version}{'.' if '+' in version else '+'}cpu",
    install_requires=[line for line in lines if line.strip()],
    extras_require={"bench": ["pandas"]},
    package_data={"vllm": ["py.typed", "configs/*.json"]},
)
