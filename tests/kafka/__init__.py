"""What is claimed of Kafka, shown on Apache Kafka itself."""
