"""The Helm chart, rendered by helm itself."""
