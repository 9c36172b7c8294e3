"""Pictures of measurements, each for the terminal, notebooks, HTML, SVG and PNG."""
