"""ABC: a parallel web crawler. Each MPI rank is an agent; see ARCHITECTURE.md for the rooms."""

__version__ = "0.2.0"
