"""What `gemma4 pin` reads of a checkpoint: its configuration and the headers of its safetensors files, never the weights.

Read in this order: `pin_checkpoint` (from a name to a pinned checkpoint), `count_checkpoint` (from its files to its sizes),
`checkpoint_sources` (the files on Hugging Face, in a bucket or in a folder, as byte ranges), `configuration` (which
architecture, which format), `safetensors_header` (names, types and sizes of the tensors of one file), `tensor_kinds`
(tensors sorted as memory and speed need them), `folder_manifest` (the checksums by which a folder is known once it has been
copied into a bucket).
"""
