"""``sparsebayes completion``: what a shell needs to complete commands, options and files."""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

from sparsebayes.commands._options import RawText

_EPILOG = """\
to have it in every new shell:
  bash   sparsebayes completion bash > ~/.local/share/bash-completion/completions/sparsebayes
  zsh    sparsebayes completion zsh > "${fpath[1]}/_sparsebayes"
  tcsh   sparsebayes completion tcsh >> ~/.cshrc
  fish   sparsebayes completion fish > ~/.config/fish/completions/sparsebayes.fish
"""


def add(commands: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    commands : subparsers of argparse
        Of the program's parser.
    """
    completion = commands.add_parser(
        "completion",
        help="print what a shell needs to complete commands and options",
        description="Print what a shell needs to complete commands, options and names of files.",
        epilog=_EPILOG,
        formatter_class=RawText,
    )
    completion.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "tcsh", "fish"))


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes completion``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    if importlib.util.find_spec("shtab") is None:
        raise ValueError('completion needs shtab: pip install "sparsebayes[cli]"')
    import shtab

    if arguments.shell not in shtab.SUPPORTED_SHELLS:
        raise ValueError(
            f"this version of shtab knows no {arguments.shell}: pip install --upgrade shtab"
        )
    from sparsebayes.commands import parser

    print(shtab.complete(files_completed(parser()), shell=arguments.shell))


def files_completed(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Let every argument that names a file be completed with files.

    Parameters
    ----------
    parser : ArgumentParser
        Of the program.

    Returns
    -------
    ArgumentParser
        The same.
    """
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                files_completed(command)
        elif action.metavar in _FILES:
            vars(action)["complete"] = shtab.FILE
    return parser


_FILES = ("DATA", "FILE", "IN", "MODEL", "OUT", "PICTURE", "REPORT")
