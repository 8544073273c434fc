"""``python -m sparsebayes`` is the command line."""

import sys

from sparsebayes.cli import main

sys.exit(main())
