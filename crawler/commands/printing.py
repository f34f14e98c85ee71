"""The commands that print what the program itself knows: `config` and `completion`."""

import argparse
from pathlib import Path

from crawler import config
from crawler.arguments import SCRIPT, make_parser
from crawler.commandline import guess, print_completion
from crawler.commands.terminal import show
from crawler.ports import UserError
from crawler.templates import TEMPLATES, template


def show_config(arguments: argparse.Namespace) -> int:
    """Print a configuration or a template."""
    if arguments.file in TEMPLATES:
        if arguments.set:
            raise UserError(f"--set: {arguments.file} is a template, which is printed as it is")
        show(template(arguments.file), end="")
        return 0
    file = None if arguments.file is None else Path(arguments.file)
    if file and not file.exists() and not file.suffix:
        raise UserError(
            f"{file}: no such file or template; {guess(str(file), TEMPLATES)}the templates are"
            f" {', '.join(TEMPLATES)}"
        )
    show(config.as_toml(config.load(file, arguments.set), commented=True), end="")
    return 0


def show_completion(arguments: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    print_completion(make_parser(SCRIPT), arguments.shell)
    return 0
