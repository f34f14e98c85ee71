"""Dynamic assignment: seed servers and their clients (Mukhopadhyay et al., WEB-SAILOR).

A server knows all URLs and hands them out; a client fetches what it is handed, and reports what it
finds. `roles` says which of them a rank is, `server` and `client` are their parts in a core.
`seedbench` is a server's workbench, and `relay` passes messages along the tree of servers
(`core.tree`). With `dynamic.follow = "own"` clients follow links themselves; then a server only
assigns sites, and passes URLs on (`holder`). `core.members` sees to clients that join and leave.
"""
