"""Programs and images that run in the cloud, apart from the program that deploys them.

`supervisor/gemma4_supervisor` keeps vLLM running on a machine; `weights/gemma4_stage` copies a model into the bucket.
Both are standard library only and use `shared`. `archive.py` packs each into one file; that is what is deployed.
`gpu/` and `tpu/Dockerfile` are images, built only with `images.mode: build`.
"""
