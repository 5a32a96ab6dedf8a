from __future__ import annotations

import subprocess
import sys


def test_importing_the_method_needs_numpy_only() -> None:
    code = (
        "import sys, sparing.method; "
        "print(sorted({'torch', 'transformers', 'pydantic', 'scipy', 'plotly'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
