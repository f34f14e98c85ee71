"""Pages for people: one HTML file each, which loads nothing and runs no script.

The templates and the style are in this folder. All text is escaped, because most of it comes from
the web. A page forbids its reader's browser everything but its own style, by a
Content-Security-Policy with the hash of the style. So no template may have a `style` attribute.

`rendering` makes the pages, and `words` says numbers in words, also in texts for a terminal.
"""
