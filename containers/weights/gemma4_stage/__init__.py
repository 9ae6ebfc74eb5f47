"""Copies one Hugging Face model or LoRA adapter into a Cloud Storage prefix, file by file, without ever holding a whole file.

The promise: an object stands under its final name only if it is whole and its checksum is the one that the Hub lists.
Bytes go from a download that can be resumed through a fixed window of memory into a resumable upload; the chunk that would
complete the object is held back until the checksum of all bytes is right. The manifest is written last, so its presence
says that everything is there. What is there already is not copied again: after a kill, run it again.

Read `__main__` (the command), `request` (what it was asked for), `model_copy` (the story of one run), `adapter_files` (what an
adapter is, and why one is refused), then `file_copy` with `window`, `hub`, `source_folder` (a bucket in place of the Hub) and
`bucket`; `connections`, `google_token` and `retries` are below those, `exit_codes` and `job_log` say how it went. ../README.md
has the manifest's schema, the log's format and the reasons. Standard library only, Python 3.9 or later: it runs unbuilt on a
stock cloud-CLI image.
"""
