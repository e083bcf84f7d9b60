"""What a cluster would do, estimated from parts that were measured."""
