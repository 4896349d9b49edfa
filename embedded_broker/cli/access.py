"""Access options of the command line: who asks a broker, and how the connection is secured.

Answers: the options of a command that is a client, and the settings that they make. A secret is no
option: everybody on the machine can read the arguments of a process. It comes from the environment,
and stands in no help, log or error. Must not know: what is asked.
"""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from rocketmq_py import Credentials, TlsConfig
from rocketmq_py.config import ClientSettings

SECRET_KEY_VARIABLE: Final = "ROCKETMQ_SECRET_KEY"  # noqa: S105 - where it is, not what it is
TOKEN_VARIABLE: Final = "ROCKETMQ_SECURITY_TOKEN"  # noqa: S105 - as above

AccessKey = Annotated[
    str | None,
    typer.Option(
        envvar="ROCKETMQ_ACCESS_KEY",
        metavar="KEY",
        help="Sign requests to a broker by this account. Its secret is taken from the variable "
        f"{SECRET_KEY_VARIABLE}, a temporary account's token from {TOKEN_VARIABLE}.",
    ),
]
UseTls = Annotated[bool, typer.Option("--tls", help="Connect to a broker with TLS.")]
CaFile = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help="The authorities that signed the broker's certificate, as PEM; means --tls. Without "
        "it those of this machine count.",
    ),
]
CertFile = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help="A certificate of your own and its key, as PEM, for a broker that wants one; means "
        "--tls.",
    ),
]


def client_settings(
    *, access_key: str | None, tls: bool, ca_file: Path | None, cert_file: Path | None
) -> ClientSettings:
    """Make the settings of a client; raises `BadParameter` for an account without its secret."""
    settings = ClientSettings()
    if access_key:
        secret = os.environ.get(SECRET_KEY_VARIABLE)
        if not secret:
            raise typer.BadParameter(
                f"--access-key {access_key}: the variable {SECRET_KEY_VARIABLE} must hold its "
                "secret key"
            )
        token = os.environ.get(TOKEN_VARIABLE) or None
        settings["credentials"] = Credentials(access_key, secret, token)
    if tls or ca_file is not None or cert_file is not None:
        settings["use_tls"] = True
        settings["tls_config"] = TlsConfig(ca_file=ca_file, cert_file=cert_file)
    return settings
