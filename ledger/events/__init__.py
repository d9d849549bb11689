"""The event machine: how a claim begins and ends, what brings stuck work back, and who of a lane goes first. Offered whole by `work`."""
