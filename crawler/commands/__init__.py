"""The commands of the command line. The commands of one module need the same imports."""
