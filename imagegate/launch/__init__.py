"""The launch, as arithmetic: killers and when they fire, watermarks, memory, jobs, drivers.

Pure: figures in, figures out. `imagegate.nodes` finds them on a host, `imagegate.checks.launch`
judges them.
"""
