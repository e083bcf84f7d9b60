"""What is done with a trained agent: evaluate, draw, record, export."""
