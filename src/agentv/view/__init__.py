"""The viewer: pages about runs, served by a local server or contained in one HTML file."""
