"""The dashboard and the alert rules, against a real Prometheus."""
