"""The weights copy: `gemma4_stage` runs as a Cloud Run job. See README.md."""
