"""Cloud Run: deploy.py wires a stack, gpu_service.py is the service that serves."""
