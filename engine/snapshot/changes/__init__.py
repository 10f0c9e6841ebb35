"""What commands, failures, lost logs and moved rows change in the queue."""
