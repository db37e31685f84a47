"""The output of any subject: text, Markdown, findings for CI systems, charts. It knows no subject."""
