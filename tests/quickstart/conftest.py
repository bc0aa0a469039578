import sys
from pathlib import Path

QUICKSTART = Path(__file__).parents[2] / "examples/quickstart"
sys.path.insert(0, str(QUICKSTART))  # its scripts import each other as scripts do
