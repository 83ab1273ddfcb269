"""`python -m reliable_llm`."""

import sys

from reliable_llm.cli import main

sys.exit(main())
