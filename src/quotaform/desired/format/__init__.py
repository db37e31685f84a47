"""YAML files in one style: `quotaform fmt`.

text -> `tree.read_tree` -> `style.arrange`, `layout.lay_out` -> `writer.write_tree` -> text, with every comment.
`formatter` makes sure that the result says the same.
"""
