"""The service round the learner: Kafka in, predictions and the tree out."""
