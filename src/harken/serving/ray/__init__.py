"""Models on a Ray cluster: batch translation with Ray Data, a server with Ray Serve (extra `ray`)."""
