"""What limits principals, of any number: the table of precedence joined with quotas.

`resolved.resolved` is the function; `survey.survey` says what quotas hold, which the joins are made by.
"""
