"""Changes of quota files in place: the text of values and fields is replaced, and all else stays as it is written.

text -> `mapping_text.read_items` -> `entry_edit.edit_entry` per entry -> `file_edit.edit_file` -> text. Whoever edits
files makes sure that the result declares what it should (`quotaform.app.usage.quota_edit`).
"""
