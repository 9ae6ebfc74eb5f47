"""The command: parses the arguments, runs the copy or the check, and turns what went wrong into an exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import NoReturn

from containers.shared.manifest import MANIFEST

from .exit_codes import CopyFailure, ExitCode
from .job_log import log
from .model_copy import copy_model, verify_prefix
from .request import MEMORY_MIB, CopyRequest

EPILOG = f"""\
Copies only what is missing or different, so a run that was killed is simply started again.

environment:
  HF_TOKEN                     Hugging Face token, where the model is gated; sent to HF_ENDPOINT and nowhere else
  HF_ENDPOINT                  default https://huggingface.co
  STORAGE_ENDPOINT             default https://storage.googleapis.com (STORAGE_EMULATOR_HOST works as well)
  GOOGLE_OAUTH_ACCESS_TOKEN    Google access token to use instead of asking the metadata server
  GCE_METADATA_HOST            default metadata.google.internal

exit codes:
  0    every file is there, and the manifest says so
  1    gave up after retries, or an unexpected error: run again, what is there stays
  2    wrong command line
  3    a file did not have the size or checksum that the Hub lists; it was not stored
  4    Hugging Face does not accept the token
  5    the model is gated: no token, or its account has no access (licence not accepted)
  6    repository, revision or file not found on the Hub
  7    the bucket cannot be read or written
  8    the bucket's manifest is missing, differs from the objects, or belongs to another model or revision
  9    an answer that the Hub never gives: a list from elsewhere, a redirect to plain http, an invalid file name, too long
  10   the LoRA adapter cannot be served as asked: its rank, its base model, what it changes, or weights that may hold code
  143  told to stop (SIGTERM): run again, what is there stays

example:
  HF_TOKEN=... stage.pyz --repo google/gemma-4-31B-it --revision 0123abc --destination gs://my-bucket/gemma-4-31b-it
  stage.pyz --verify --destination gs://my-bucket/gemma-4-31b-it      (checks {MANIFEST}, changes nothing)
"""


class Stopped(BaseException):
    """SIGTERM or SIGINT arrived."""


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; returns its exit code. The last line of the log says how it ended."""
    options = _parse(argv)
    try:
        request = CopyRequest(options, environ)
        if options.verify:
            verify_prefix(request)
        else:
            copy_model(request)
    except CopyFailure as failure:
        log("ERROR", str(failure), event="failed", exitCode=int(failure.code))
        return failure.code
    except Stopped:
        log("WARNING", "Told to stop. Run it again: whole files stay and are not copied twice.", event="stopped")
        return ExitCode.STOPPED
    except Exception as error:  # the job's log is all that anybody will see of a bug
        text = f"Unexpected {type(error).__name__}: {error}. This is a bug of gemma4_stage; running it again may help."
        log("ERROR", text, event="failed", exitCode=int(ExitCode.GAVE_UP), stack=traceback.format_exc())
        return ExitCode.GAVE_UP
    return ExitCode.OK


def start() -> NoReturn:
    """Run the command that the process was started with, and end the process."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads may still wait for the network, and none of them needs an orderly end


def _stop(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="stage.pyz",
        description="Copy a Hugging Face model into a Cloud Storage prefix, verified, resumable, in bounded memory.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--destination", required=True, metavar="gs://BUCKET/PREFIX", help="where the files go; one model a prefix")
    add(
        "--repo",
        metavar="OWNER/NAME",
        help="repository on the Hub, or gs://BUCKET/FOLDER; with --verify, what the manifest names",
    )
    add("--revision", metavar="REV", help="commit (40 hex digits), tag or branch; default main")
    add("--verify", action="store_true", help="copy nothing: check the manifest against the objects in the bucket")
    add("--parallel", type=_count, default=3, metavar="N", help="files copied at once (3)")
    add("--chunk-mib", type=_count, default=16, metavar="MIB", help="upload chunk; each file in flight holds two (16)")
    add("--retries", type=int, default=8, metavar="N", help="tries without progress before giving up (8)")
    add("--backoff-seconds", type=float, default=1.0, metavar="S", help="first wait, doubled up to a minute (1)")
    add("--timeout-seconds", type=float, default=60.0, metavar="S", help="silence after which a connection is cut (60)")
    add("--progress-seconds", type=float, default=10.0, metavar="S", help="time between progress lines (10)")
    adapter = parser.add_argument_group("LoRA adapter (its two files are copied, after a look at what they say)")
    adapter.add_argument(
        "--adapter-rank", type=_count, metavar="N", help="the source is an adapter of at most this rank"
    )
    adapter.add_argument("--adapter-base", metavar="NAME", default="", help="model that it must be trained for")
    adapter.add_argument("--adapter-layers", type=_count, metavar="N", help="decoder layers of that model")
    adapter.add_argument("--adapter-hidden", type=_count, metavar="N", help="hidden size of that model")
    adapter.add_argument(
        "--adapter-experts",
        choices=("yes", "no"),
        default="no",
        help="has the server room for adapters of experts (no)",
    )
    options = parser.parse_args(argv)
    if options.adapter_rank and not (options.adapter_base and options.adapter_layers and options.adapter_hidden):
        parser.error("--adapter-rank needs --adapter-base, --adapter-layers and --adapter-hidden beside it")
    if not options.verify and not options.repo:
        parser.error("--repo says what to copy; give it, or --verify to check a bucket that is already filled")
    if options.parallel * options.chunk_mib * 2 > MEMORY_MIB:
        parser.error(f"--parallel x --chunk-mib x 2 must stay within {MEMORY_MIB} MiB; lower one of them")
    return options


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


if __name__ == "__main__":
    start()
